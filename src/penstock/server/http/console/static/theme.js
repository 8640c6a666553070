// Light or dark: as the system has it, until a person chooses. Pictures that are painted listen to `themechange`.

const THEME = "penstock.theme";

export function isDark() {
  return document.documentElement.classList.contains("dark");
}

export function applyTheme() {
  const wanted = localStorage.getItem(THEME);
  const dark = wanted ? wanted === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const before = isDark();
  document.documentElement.classList.toggle("dark", dark);
  if (before !== dark) document.dispatchEvent(new Event("themechange"));
}

export function switchTheme() {
  localStorage.setItem(THEME, isDark() ? "light" : "dark");
  applyTheme();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", applyTheme);
