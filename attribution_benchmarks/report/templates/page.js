"use strict";
// The page has all its scores without this script, which adds sorting.
function all(selector, within) { return Array.from((within || document).querySelectorAll(selector)); }
/* Tables that sort */
function heads_of(table) { return all("thead th[scope=col]", table); }
// Rows that tie are in the order of the page, so that a view can be restored.
function sort(table, column, falling) {
  var body = table.tBodies[0], rows = table.original = table.original || Array.from(body.rows);
  heads_of(table).forEach(function (head, place) {
    if (place === column) { head.setAttribute("aria-sort", falling ? "descending" : "ascending"); } else { head.removeAttribute("aria-sort"); }
  });
  function key(row) {
    var cell = row.cells[column], value = cell.getAttribute("data-value");
    return value === null ? cell.textContent.trim().toLowerCase() : value === "" ? NaN : Number(value);
  }
  rows.map(function (row, place) { return { row: row, key: key(row), place: place }; })
    .sort(function (a, b) {
      if (typeof a.key === "string") { return (falling ? -1 : 1) * a.key.localeCompare(b.key) || a.place - b.place; }
      if (isNaN(a.key) || isNaN(b.key)) { return isNaN(a.key) - isNaN(b.key) || a.place - b.place; }
      return (falling ? -1 : 1) * (a.key - b.key) || a.place - b.place;
    })
    .forEach(function (entry) { body.appendChild(entry.row); });
}
all("table.sortable").forEach(function (table) {
  heads_of(table).forEach(function (head, column) {
    var button = head.querySelector("button");
    if (!button) { return; }
    button.addEventListener("click", function () {
      var falling = head.getAttribute("aria-sort") !== "descending" && column > 0
        || head.getAttribute("aria-sort") === "ascending" && column === 0;
      sort(table, column, falling);
    });
  });
});
