// Before the first paint, so that a chosen theme does not flash.
try {
  const chosen = localStorage.getItem("mihash-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // without storage the system's theme stays
}
