"use strict";
// Everything works without this: a file can also be dropped onto its field, or anywhere on the area around it.
for (const area of document.querySelectorAll("[data-drop]")) {
  const field = area.querySelector("input[type=file]");
  for (const kind of ["dragover", "dragleave", "drop"]) {
    area.addEventListener(kind, (event) => {
      event.preventDefault();
      area.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && event.dataTransfer.files.length === 1) {
        field.files = event.dataTransfer.files;
        area.closest("form").requestSubmit();
      }
    });
  }
}
// A page of a running job loads itself again while somebody looks at it.
const again = document.querySelector("[data-reload-seconds]");
if (again) {
  setTimeout(() => { if (!document.hidden) location.reload(); }, 1000 * Number(again.dataset.reloadSeconds));
  document.addEventListener("visibilitychange", () => { if (!document.hidden) location.reload(); });
}
