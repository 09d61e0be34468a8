"use strict";
// The page has all its scores without this script, which adds sorting and larger pictures.
function get(id) { return document.getElementById(id); }
function all(selector, within) { return Array.from((within || document).querySelectorAll(selector)); }
function make(tag, properties, children) {
  var element = Object.assign(document.createElement(tag), properties || {});
  (children || []).forEach(function (child) { element.append(child); });
  return element;
}
function figure(value, digits) { return value === null || value === undefined || isNaN(value) ? "–" : value.toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1"); }
function svg(tag, attributes) {
  var element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.keys(attributes).forEach(function (name) { element.setAttribute(name, attributes[name]); });
  return element;
}
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

/* Pictures, larger */
var larger = get("larger");
function enlarge(element, words) {
  get("larger-text").replaceChildren(make("p", { textContent: words }), element);
  larger.showModal();
}
get("larger-close").addEventListener("click", function () { larger.close(); });
larger.addEventListener("click", function (event) { if (event.target === larger) { larger.close(); } });
all("a.picture").forEach(function (link) {
  link.addEventListener("click", function (event) {
    event.preventDefault();
    var image = link.querySelector("img");
    var inner = make("div", { className: "inner", tabIndex: 0 }, [make("img", { src: image.src, alt: image.alt, width: image.width, height: image.height })]);
    inner.setAttribute("role", "region"); inner.setAttribute("aria-label", "Picture");
    enlarge(inner, link.parentElement.querySelector("figcaption").textContent);
    var own = inner.querySelector("img");
    own.removeAttribute("width"); own.removeAttribute("height");
  });
});
