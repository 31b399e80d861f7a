"""The op list of somebody's own program: it runs unmodified on devices that compute nothing and say what was asked of them."""
