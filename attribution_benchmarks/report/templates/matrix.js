"use strict";
(function () {
  var data = JSON.parse(get("report-data").textContent);

  /* The matrix: filters, one tab stop, and details of a score */
  var table = get("matrix-table"), filters = get("filters"), search = get("find-method");
  function ticked(kind) {
    return all("[data-filter=" + kind + "]:checked", filters).map(function (box) { return box.value; });
  }
  function filter() {
    var groups = ticked("group"), families = ticked("family"), columns = ticked("column"), words = search.value.trim().toLowerCase();
    var seen = data.columns.map(function (column, place) {
      return groups.includes(column.group) && columns.includes(String(place));
    });
    all("thead tr:nth-child(2) th", table).forEach(function (head, place) { head.hidden = !seen[place]; });
    all("th[data-group]", table).forEach(function (head) {
      var count = data.columns.filter(function (column, place) { return seen[place] && column.group === head.dataset.group; }).length;
      head.hidden = !count;
      if (count) { head.colSpan = count; }
    });
    var rows = 0;
    all("tbody tr", table).forEach(function (row) {
      all("td", row).forEach(function (cell, place) { cell.hidden = place > 0 && !seen[place - 1]; });
      if (row.dataset.family === undefined) { return; }
      row.hidden = !(families.includes(row.dataset.family) && row.cells[0].textContent.toLowerCase().includes(words));
      rows += row.hidden ? 0 : 1;
    });
    get("filtered").textContent = rows + " methods, " + seen.filter(Boolean).length + " metrics";
    roam();
  }
  filters.hidden = false;
  filters.addEventListener("change", function () { filter(); remember(); });
  search.addEventListener("input", function () { filter(); remember(); });

  /* The address keeps what is hidden, and the order */
  var keys = ["method", "passed"].concat(data.columns.map(function (column) { return column.key; }));
  var orders = ["name", "metrics passed (✓), then mean rank"].concat(data.columns.map(function (column) { return column.label; }));
  function name_of(box) { return box.dataset.filter === "column" ? data.columns[Number(box.value)].key : box.value; }
  function order_of() {
    var sorted = table.querySelector("th[aria-sort]"), falling = sorted.getAttribute("aria-sort") === "descending";
    return { place: heads_of(table).indexOf(sorted), falling: falling };
  }
  function show_order() {
    var order = order_of();
    get("sorted").textContent = orders[order.place] + (order.falling === order.place > 0 ? "" : ", reversed");
  }
  function remember() {
    var view = new URLSearchParams(), order = order_of();
    all("[data-filter]:not(:checked)", filters).forEach(function (box) { view.append("hide_" + box.dataset.filter, name_of(box)); });
    if (search.value.trim()) { view.append("find", search.value.trim()); }
    if (order.place !== 1 || !order.falling) {
      view.append("sort", keys[order.place]);
      view.append("order", order.falling ? "descending" : "ascending");
    }
    write_address("matrix", view);
  }
  table.addEventListener("sorted", function () { show_order(); remember(); });
  function restore() {
    var view = read_address("matrix");
    if (!view) { return; }
    var known = ["ascending", "descending"].includes(view.get("order")) && keys.includes(view.get("sort"));
    all("[data-filter]", filters).forEach(function (box) { box.checked = !view.getAll("hide_" + box.dataset.filter).includes(name_of(box)); });
    search.value = (view.get("find") || "").slice(0, 100);
    sort(table, known ? keys.indexOf(view.get("sort")) : 1, !known || view.get("order") === "descending");
    show_order();
    filter();
    get("matrix").scrollIntoView();
  }
  window.addEventListener("hashchange", restore);

  var current = null;
  function cells() { return all("tbody tr:not([hidden]) td:not([hidden]) button.cell", table); }
  function roam() {
    var shown = cells();
    if (!shown.includes(current)) { current = shown[0] || null; }
    all("button.cell", table).forEach(function (button) { button.tabIndex = button === current ? 0 : -1; });
  }
  function step(button, down, right) {
    var rows = all("tbody:first-of-type tr:not([hidden])", table).map(function (row) { return all("td:not([hidden]) button.cell", row); });
    var at = rows.findIndex(function (row) { return row.includes(button); }), along = rows[at].indexOf(button);
    var next = (rows[Math.max(0, Math.min(rows.length - 1, at + down))] || [])[Math.max(0, Math.min(rows[at].length - 1, along + right))];
    if (next) { current = next; roam(); next.focus(); }
  }
  table.addEventListener("keydown", function (event) {
    var moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (moves && event.target.classList.contains("cell")) { event.preventDefault(); step(event.target, moves[0], moves[1]); }
  });
  var sheet = get("sheet"), opener = null;
  function close() { sheet.hidden = true; if (opener) { opener.setAttribute("aria-expanded", "false"); opener.focus(); opener = null; } }
  table.addEventListener("click", function (event) {
    var button = event.target.closest("button.cell");
    if (!button) { return; }
    current = button; roam();
    var place = Number(button.dataset.place), told = data.cells[button.dataset.method][place];
    if (opener) { opener.setAttribute("aria-expanded", "false"); }
    opener = button; button.setAttribute("aria-expanded", "true");
    var list = make("ul", {}, told.map(function (line) { return make("li", { textContent: line }); }));
    var column = data.columns[place];
    var text = [make("h3", { textContent: data.titles[button.dataset.method] + ", " + column.label }), list];
    if (data.drilled.includes(column.key) && button.textContent !== "–") {
      var view = new URLSearchParams({ column: column.key, first: button.dataset.method });
      text.push(make("a", { className: "button", href: "examples.html#inputs?" + view, textContent: "Compare input by input" }));
    }
    get("sheet-text").replaceChildren.apply(get("sheet-text"), text);
    sheet.hidden = false;
  });
  get("sheet-close").addEventListener("click", close);
  document.addEventListener("keydown", function (event) { if (event.key === "Escape" && !sheet.hidden) { close(); } });
  function measure() { table.style.setProperty("--first-row", table.tHead.rows[0].offsetHeight + "px"); }
  measure(); window.addEventListener("resize", measure); roam(); restore();
}());
