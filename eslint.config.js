/** What is linted in the page's modules; their form is prettier's (package.json), their types are tsc's (jsconfig.json). */
import js from "@eslint/js";
import globals from "globals";

const MARKUP = ["innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe"];

/** Modules that know neither the page nor the server: values in, values and words out. */
const PURE = [
  "static/js/changes.js",
  "static/js/coupledFields.js",
  "static/js/figures/**",
  "static/js/format.js",
  "static/js/measured.js",
  "static/js/options.js",
  "static/js/planLabel.js",
  "static/js/predictedRows.js",
  "static/js/relayout.js",
  "static/js/remedies.js",
  "static/js/scenario.js",
  "static/js/sweeping.js",
  "static/js/url.js",
];
const IMPURE = "/(actions|api|axes|measurements|predict|runs|state|upload)\\.js$|/views/";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "error", reportUnusedInlineConfigs: "error" },
    rules: {
      "array-callback-return": "error",
      "default-case-last": "error",
      eqeqeq: "error",
      "no-constructor-return": "error",
      "no-duplicate-imports": "error",
      "no-else-return": "error",
      "no-eval": "error",
      "no-implied-eval": "error",
      "no-lonely-if": "error",
      "no-new-func": "error",
      "no-param-reassign": "error",
      "no-restricted-properties": [
        "error",
        ...MARKUP.map((property) => ({ property, message: "Text is a text node: views/common/dom.js." })),
      ],
      "no-self-compare": "error",
      "no-template-curly-in-string": "error",
      "no-unreachable-loop": "error",
      "no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-useless-rename": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "prefer-template": "error",
      radix: "error",
    },
  },
  { files: ["static/js/**"], ignores: PURE, languageOptions: { globals: globals.browser } },
  { files: ["tests/browser/firefox.mjs"], languageOptions: { globals: { ...globals.node, ...globals.browser } } },
  {
    files: PURE,
    languageOptions: { globals: { structuredClone: "readonly", URLSearchParams: "readonly" } },
    rules: {
      "no-restricted-imports": ["error", { patterns: [{ regex: IMPURE, message: "This module is pure." }] }],
    },
  },
  { files: ["static/js/theme.js"], languageOptions: { sourceType: "script" } },
];
