// Light, dark, or as the system has it.

import { $, say } from "./parts.js";

const THEMES = ["system", "light", "dark"];

export function startTheme(changed) {
  const button = $("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => document.documentElement.dataset.theme || "system";
  const label = () => {
    say(button, { system: "Auto", light: "Light", dark: "Dark" }[chosen()]);
    button.setAttribute("aria-label", `Theme: ${chosen()}. Change it`);
  };
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(chosen()) + 1) % THEMES.length];
    if (next === "system") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem("kova-theme");
    } else {
      document.documentElement.dataset.theme = next;
      localStorage.setItem("kova-theme", next);
    }
    label();
    changed();
  });
  dark.addEventListener("change", changed);
  label();
}
