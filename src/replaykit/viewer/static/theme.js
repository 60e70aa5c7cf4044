/** Light and dark: the system's choice until somebody makes another one. */

export function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  dispatchEvent(new Event("themechange"));
}
