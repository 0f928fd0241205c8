"use strict";
// Optional features: shows rows as cards on a narrow screen, shows the figures of curves as text, and opens folded parts for printing.

// Shows the figures of the size that is nearest to the pointer, or that the arrow keys select.
for (const drawing of document.querySelectorAll("svg[data-at]")) {
  const sizeXs = drawing.dataset.at.split(" ").map(Number);
  const sentences = JSON.parse(drawing.dataset.says);
  const cursor = drawing.querySelector(".cursor");
  const says = drawing.closest("figure").querySelector(".says");
  let shown = -1; // index of the size; -1 before the first
  const show = (index) => {
    shown = Math.max(0, Math.min(sizeXs.length - 1, index));
    cursor.setAttribute("transform", `translate(${sizeXs[shown]} 0)`);
    cursor.style.visibility = "visible";
    says.textContent = sentences[shown];
  };
  const hide = () => {
    cursor.style.visibility = "hidden";
    says.textContent = "";
  };
  const nearest = (event) => {
    const box = drawing.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * drawing.viewBox.baseVal.width;
    const distances = sizeXs.map((sizeX) => Math.abs(sizeX - x));
    return distances.indexOf(Math.min(...distances));
  };
  drawing.tabIndex = 0;
  drawing.addEventListener("pointermove", (event) => show(nearest(event)));
  drawing.addEventListener("pointerdown", (event) => show(nearest(event)));
  drawing.addEventListener("pointerleave", () => {
    if (document.activeElement !== drawing) hide();
  });
  drawing.addEventListener("focus", () => {
    if (shown < 0) show(sizeXs.length - 1);
  });
  drawing.addEventListener("blur", hide);
  drawing.addEventListener("keydown", (event) => {
    const indexByKey = { ArrowLeft: shown - 1, ArrowRight: shown + 1, Home: 0, End: sizeXs.length - 1 };
    if (!(event.key in indexByKey)) return;
    event.preventDefault();
    show(indexByKey[event.key]);
  });
}

// On a narrow screen each row is a card, in which every cell has the name of its column.
const narrow = matchMedia("(max-width: 600px)");
const MAX_SHORT = 22; // characters of a cell that fits into half of the card

function showCards() {
  if (!narrow.matches) return;
  for (const table of document.querySelectorAll("table:not(.cards)")) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    table.setAttribute("role", "table"); // screen readers no longer see a table once its display changes
    for (const row of table.tBodies[0].rows) {
      row.setAttribute("role", "row");
      [...row.cells].forEach((cell, index) => {
        cell.setAttribute("role", cell.tagName === "TH" ? "rowheader" : "cell");
        cell.dataset.label = names[index];
        cell.classList.toggle("wide", cell.textContent.length > MAX_SHORT);
      });
    }
    table.classList.add("cards");
  }
}
showCards();
narrow.addEventListener("change", showCards);

// Opens folded parts for printing, and folds them again afterwards.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const part of opened) part.open = true;
});
addEventListener("afterprint", () => {
  for (const part of opened) part.open = false;
});
