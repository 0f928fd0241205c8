"use strict";
// Optional features: copies tables, shows rows as cards on a narrow screen, shows the figures of curves as text, and opens folded parts for printing.

function asTsv(table) {
  const cell = (one) => one.textContent.replace(/[\t\r\n]+/g, " ").trim();
  return [...table.rows].map((row) => [...row.cells].map(cell).join("\t")).join("\n") + "\n";
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Fallback without clipboard permission or in an insecure context.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

for (const button of document.querySelectorAll("button.copy")) {
  const tools = button.closest(".tools");
  let region = tools.previousElementSibling;
  while (region && !region.matches(".scroll")) region = region.previousElementSibling;
  const table = region.querySelector("table");
  button.hidden = false;
  button.setAttribute("aria-label", `Copy as TSV: ${table.caption ? table.caption.textContent : "table"}`);
  button.addEventListener("click", async () => {
    const done = await copy(asTsv(table));
    button.focus();
    tools.querySelector(".done").textContent = done ? `${table.tBodies[0].rows.length} rows copied` : "not copied: select the table by hand";
  });
}

for (const drawing of document.querySelectorAll("svg[data-at]")) {
  const places = drawing.dataset.at.split(" ").map(Number);
  const sentences = JSON.parse(drawing.dataset.says);
  const cursor = drawing.querySelector(".cursor");
  const says = drawing.closest("figure").querySelector(".says");
  let chosen = -1;
  const show = (index) => {
    chosen = Math.max(0, Math.min(places.length - 1, index));
    cursor.setAttribute("transform", `translate(${places[chosen]} 0)`);
    cursor.style.visibility = "visible";
    says.textContent = sentences[chosen];
  };
  const hide = () => {
    cursor.style.visibility = "hidden";
    says.textContent = "";
  };
  const nearest = (event) => {
    const box = drawing.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * drawing.viewBox.baseVal.width;
    return places.reduce((best, place, index) => (Math.abs(place - x) < Math.abs(places[best] - x) ? index : best), 0);
  };
  drawing.tabIndex = 0;
  drawing.addEventListener("pointermove", (event) => show(nearest(event)));
  drawing.addEventListener("pointerdown", (event) => show(nearest(event)));
  drawing.addEventListener("pointerleave", () => document.activeElement === drawing || hide());
  drawing.addEventListener("focus", () => chosen < 0 && show(places.length - 1));
  drawing.addEventListener("blur", hide);
  drawing.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: chosen - 1, ArrowRight: chosen + 1, Home: 0, End: places.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    show(moves[event.key]);
  });
}

// On a narrow screen each row is shown as a card, in which every cell has the name of its column.
const narrow = matchMedia("(max-width: 600px)");
const MAX_SHORT = 22; // characters of a cell that fits into half of the card

function showCards() {
  if (!narrow.matches) return;
  for (const table of document.querySelectorAll("table:not(.cards)")) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    table.setAttribute("role", "table"); // its display changes, which would hide that it is a table
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

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
});
