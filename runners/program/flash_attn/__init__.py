"""What stands for the package flash_attn where it is not installed: its functions, which record instead of running."""
