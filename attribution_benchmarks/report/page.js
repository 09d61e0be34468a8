"use strict";
// The page has all its scores without this script, which adds sorting, filters and details.
(function () {
  var data = JSON.parse(document.getElementById("report-data").textContent);
  function get(id) { return document.getElementById(id); }
  function all(selector, within) { return Array.from((within || document).querySelectorAll(selector)); }
  function make(tag, properties, children) {
    var element = Object.assign(document.createElement(tag), properties || {});
    (children || []).forEach(function (child) { element.append(child); });
    return element;
  }
  function figure(value, digits) { return value === null || value === undefined || isNaN(value) ? "–" : value.toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1"); }

  /* Tables that sort */
  function heads_of(table) { return all("thead th[scope=col]", table); }
  // Rows that tie, and all rows for a negative column, are in the order of the page, so that a view can be restored.
  function sort(table, column, falling) {
    var body = table.tBodies[0], rows = table.original = table.original || Array.from(body.rows);
    heads_of(table).forEach(function (head, place) {
      if (place === column) { head.setAttribute("aria-sort", falling ? "descending" : "ascending"); } else { head.removeAttribute("aria-sort"); }
    });
    function key(row) {
      var cell = row.cells[column], value = cell.getAttribute("data-value");
      return value === null ? cell.textContent.trim().toLowerCase() : value === "" ? NaN : Number(value);
    }
    rows.map(function (row, place) { return { row: row, key: column < 0 ? NaN : key(row), place: place }; })
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
        if (table.id === "matrix-table") { remember(); }
      });
    });
  });

  /* Where the reader is */
  var links = all(".bar-top nav a");
  if ("IntersectionObserver" in window) {
    var watch = new IntersectionObserver(function (entries) {
      entries.forEach(function (entry) {
        if (!entry.isIntersecting) { return; }
        links.forEach(function (link) {
          var here = link.getAttribute("href") === "#" + entry.target.id;
          if (here) { link.setAttribute("aria-current", "true"); } else { link.removeAttribute("aria-current"); }
          var list = link.closest("ul");
          if (here && list.scrollWidth > list.clientWidth) { list.scrollLeft = link.offsetLeft - list.offsetLeft - 40; }
        });
      });
    }, { rootMargin: "-15% 0px -75% 0px" });
    all("main > section").forEach(function (section) { watch.observe(section); });
  }

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
      all("td", row).forEach(function (cell, place) { cell.hidden = !seen[place]; });
      if (row.dataset.family === undefined) { return; }
      row.hidden = !(families.includes(row.dataset.family) && row.cells[0].textContent.toLowerCase().includes(words));
      rows += row.hidden ? 0 : 1;
    });
    get("filtered").textContent = rows + " methods under " + seen.filter(Boolean).length + " metrics";
    roam();
  }
  filters.hidden = false;
  filters.addEventListener("change", function () { filter(); remember(); });
  search.addEventListener("input", function () { filter(); remember(); });

  /* The address keeps the view of the matrix: what is hidden, and the order */
  var VIEW = "#matrix?", keys = ["method"].concat(data.columns.map(function (column) { return column.key; }));
  function name_of(box) { return box.dataset.filter === "column" ? data.columns[Number(box.value)].key : box.value; }
  function remember() {
    var view = new URLSearchParams(), sorted = table.querySelector("th[aria-sort]");
    all("[data-filter]:not(:checked)", filters).forEach(function (box) { view.append("hide_" + box.dataset.filter, name_of(box)); });
    if (search.value.trim()) { view.append("find", search.value.trim()); }
    if (sorted) {
      view.append("sort", keys[heads_of(table).indexOf(sorted)]);
      view.append("order", sorted.getAttribute("aria-sort"));
    }
    // Browsers may refuse it, for example in a sandboxed frame; the page works without.
    try { history.replaceState(null, "", view.toString() ? VIEW + view : "#matrix"); } catch (error) { return; }
  }
  // The address is untrusted: its values are compared with those of the page, or are the text of the search field.
  function restore() {
    if (!location.hash.startsWith(VIEW)) { return; }
    var view = new URLSearchParams(location.hash.slice(VIEW.length)), order = view.get("order");
    all("[data-filter]", filters).forEach(function (box) { box.checked = !view.getAll("hide_" + box.dataset.filter).includes(name_of(box)); });
    search.value = (view.get("find") || "").slice(0, 100);
    sort(table, ["ascending", "descending"].includes(order) ? keys.indexOf(view.get("sort")) : -1, order === "descending");
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
    var drilled = data.scores.findIndex(function (one) { return one.column === column.key && one.names.includes(button.dataset.method); });
    if (drilled >= 0) {
      var which = make("button", { type: "button", className: "plain", textContent: "Compare input by input" });
      which.addEventListener("click", function () { opener = null; sheet.hidden = true; drill(drilled, button.dataset.method); get("inputs").scrollIntoView(); get("drill-first").focus(); });
      text.push(which);
    }
    get("sheet-text").replaceChildren.apply(get("sheet-text"), text);
    sheet.hidden = false;
  });
  get("sheet-close").addEventListener("click", close);
  document.addEventListener("keydown", function (event) { if (event.key === "Escape" && !sheet.hidden) { close(); } });
  function measure() { table.style.setProperty("--first-row", table.tHead.rows[0].offsetHeight + "px"); }
  measure(); window.addEventListener("resize", measure); roam(); restore();

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

  /* Maps over pictures */
  var stops = data.ramp.map(function (hex) { return [1, 3, 5].map(function (at) { return parseInt(hex.slice(at, at + 2), 16); }); });
  var ramp = Array.from({ length: 256 }, function (_, value) {
    var at = value / 255 * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map(function (start, channel) { return start + (stops[low + 1][channel] - start) * (at - low); });
  });
  function bytes(text) { return Uint8Array.from(atob(text), function (letter) { return letter.charCodeAt(0); }); }
  function loaded(view) {
    if (view.ready) { return view.ready; }
    if (view.kind === "signal") { view.bytes = bytes(view.maps); view.ready = Promise.resolve(view); return view.ready; }
    function image(source) {
      var one = new Image();
      one.src = source;
      return one.decode().then(function () { return one; });
    }
    view.ready = Promise.all([image(view.picture), view.maps ? image(view.maps) : null]).then(function (both) {
      view.image = both[0];
      if (both[1]) {
        var canvas = make("canvas", { width: both[1].width, height: both[1].height });
        var context = canvas.getContext("2d", { willReadFrequently: true });
        context.drawImage(both[1], 0, 0);
        view.sprite = context;
      }
      return view;
    });
    return view.ready;
  }
  function overlay(view, method, strength) {
    var number = view.methods.indexOf(method), width = view.map_size[0], height = view.map_size[1];
    if (number < 0 || !view.sprite) { return null; }
    var found = view.sprite.getImageData(number % view.sheet * width, Math.floor(number / view.sheet) * height, width, height);
    for (var place = 0; place < found.data.length; place += 4) {
      var value = found.data[place], colour = ramp[value];
      found.data[place] = colour[0]; found.data[place + 1] = colour[1]; found.data[place + 2] = colour[2];
      found.data[place + 3] = 255 * strength * Math.sqrt(value / 255);
    }
    var canvas = make("canvas", { width: width, height: height });
    canvas.getContext("2d").putImageData(found, 0, 0);
    return canvas;
  }
  function painted(view, method, strength, size) {
    var width = size || view.width, height = Math.round(width * view.height / view.width);
    var canvas = make("canvas", { width: width, height: height }), context = canvas.getContext("2d");
    if (method !== null) { context.filter = "grayscale(1) brightness(.8)"; }
    context.drawImage(view.image, 0, 0, width, height);
    context.filter = "none";
    var over = method === null ? null : overlay(view, method, strength);
    if (over) { context.drawImage(over, 0, 0, width, height); }
    return canvas;
  }
  function svg(tag, attributes) {
    var element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    Object.keys(attributes).forEach(function (name) { element.setAttribute(name, attributes[name]); });
    return element;
  }
  function outlined(view) {
    var over = svg("svg", { "class": "over", viewBox: "0 0 " + view.truth_size.join(" "), preserveAspectRatio: "none", "aria-hidden": "true" });
    over.append(svg("path", { d: view.outline }));
    return over;
  }
  function drawn_signal(values, truth, map) {
    var box = svg("svg", { "class": "signal", viewBox: "0 0 " + values.length + (map ? " 60" : " 36"), preserveAspectRatio: "none", "aria-hidden": "true" });
    var low = Math.min.apply(null, values), span = Math.max.apply(null, values) - low || 1;
    truth.forEach(function (place) { box.append(svg("rect", { "class": "true", x: place, y: 0, width: 1, height: 60 })); });
    box.append(svg("polyline", { "class": "wave", points: values.map(function (value, place) { return place + ".5," + (3 + 30 * (1 - (value - low) / span)).toFixed(1); }).join(" ") }));
    (map ? Array.from(map) : []).forEach(function (value, place) {
      var share = (value - 127) / 128;
      if (Math.abs(share) > 0.01) {
        box.append(svg("rect", { "class": share > 0 ? "plus" : "minus", x: place + .1, width: .8, y: 50 - 10 * Math.max(share, 0), height: 10 * Math.abs(share) }));
      }
    });
    return box;
  }
  // A view with a method's map; null shows the input alone.
  function drawing(view, method, strength, truth, size) {
    if (view.kind === "signal") {
      var number = view.methods.indexOf(method), count = view.signal.length;
      return [drawn_signal(view.signal, truth ? view.truth : [], number < 0 ? null : view.bytes.subarray(number * count, (number + 1) * count))];
    }
    var parts = [painted(view, method, strength, size)];
    if (truth && view.outline) { parts.push(outlined(view)); }
    return parts;
  }
  function fill(frame, example, method, size) {
    var views = example.views.filter(function (view) { return view.methods.includes(method); });
    return loaded(views[0]).then(function (view) { frame.replaceChildren.apply(frame, drawing(view, method, .85, true, size)); });
  }

  /* One input, every method */
  var look = { example: 0, method: null, column: "" };
  function score(example, method, key) { return (example.values[key] || {})[method]; }
  function column_of(key) { return data.columns.find(function (column) { return column.key === key; }); }
  function methods_of(example) {
    var column = column_of(look.column), names = example.views[0].methods.slice();
    if (!column) { return names; }
    return names.sort(function (a, b) {
      var first = score(example, a, column.key), second = score(example, b, column.key);
      if (first === second || first === undefined || second === undefined) { return data.order.indexOf(a) - data.order.indexOf(b); }
      return (column.less ? 1 : -1) * (first - second);
    });
  }
  function show() {
    var example = data.gallery[look.example], names = methods_of(example), column = column_of(look.column);
    if (!names.includes(look.method)) { look.method = names[0]; }
    var slider = get("look-method"), place = names.indexOf(look.method);
    slider.max = names.length - 1; slider.value = place;
    slider.setAttribute("aria-valuetext", data.titles[look.method]);
    var value = column ? score(example, look.method, column.key) : undefined;
    var better = column ? names.filter(function (name) {
      var other = score(example, name, column.key);
      return column.less ? other < value : other > value;
    }).length : 0;
    get("look-told").replaceChildren(make("b", { textContent: data.titles[look.method] }),
      value === undefined || value === null ? "" : ": " + figure(value, column.digits) + " on this input (" + column.label + "), " + (better + 1) + " of " + names.length,
      make("br"), make("span", { className: "soft", textContent: example.title }));
    var strength = get("look-strength").value / 100, truth = get("look-truth").checked, stage = get("look-stage");
    stage.classList.toggle("one", example.views.length === 1);
    get("look-key").hidden = example.views[0].kind === "signal";
    Promise.all(example.views.map(loaded)).then(function (views) {
      stage.replaceChildren.apply(stage, views.map(function (view) {
        var words = [view.title, view.facts].filter(Boolean).join(": ");
        var button = make("button", { type: "button", className: "frame" }, drawing(view, look.method, strength, truth, 384));
        button.setAttribute("aria-label", "Larger: " + words + ", " + data.titles[look.method]);
        button.addEventListener("click", function () {
          enlarge(make("div", { className: "big frame" }, drawing(view, look.method, strength, truth, 1024)), data.titles[look.method] + ". " + words);
        });
        return make("figure", {}, [button, make("figcaption", { textContent: words })]);
      }));
      all("button", get("look-strip")).forEach(function (button) { button.setAttribute("aria-pressed", String(button.dataset.method === look.method)); });
    });
  }
  function strip() {
    var example = data.gallery[look.example], holder = get("look-strip"), column = column_of(look.column);
    loaded(example.views[0]).then(function (view) {
      holder.replaceChildren.apply(holder, methods_of(example).map(function (name) {
        var value = column ? score(example, name, column.key) : undefined;
        var button = make("button", { type: "button", className: "thumb" }, [
          make("span", { className: "frame" }, drawing(view, name, .85, true, 128)), make("b", { textContent: data.titles[name] }),
          value === undefined ? "" : figure(value, column.digits)]);
        button.dataset.method = name;
        button.addEventListener("click", function () { look.method = name; show(); });
        return button;
      }));
      show();
    });
  }
  function choose(number, method, key) {
    var example = data.gallery[number], select = get("look-column");
    look.example = number; look.method = method || look.method;
    look.column = key && example.columns.includes(key) ? key : example.columns.includes(look.column) ? look.column : example.columns[0] || "";
    get("look-input").value = String(number);
    select.replaceChildren.apply(select, example.columns.map(function (one) { return make("option", { value: one, textContent: column_of(one).title, selected: one === look.column }); }));
    strip();
  }
  if (data.gallery.length) {
    get("look-at").hidden = false;
    var scale = get("look-scale").getContext("2d");
    for (var x = 0; x < 144; x += 1) { scale.fillStyle = "rgb(" + ramp[Math.round(x / 143 * 255)].join(",") + ")"; scale.fillRect(x, 0, 1, 8); }
    get("look-input").addEventListener("change", function () { choose(Number(this.value)); });
    get("look-column").addEventListener("change", function () { look.column = this.value; strip(); });
    get("look-method").addEventListener("input", function () { look.method = methods_of(data.gallery[look.example])[Number(this.value)]; show(); });
    get("look-strength").addEventListener("input", show);
    get("look-truth").addEventListener("change", show);
    get("look-before").addEventListener("click", function () { choose((look.example + data.gallery.length - 1) % data.gallery.length); });
    get("look-after").addEventListener("click", function () { choose((look.example + 1) % data.gallery.length); });
    all("button.thumb[data-example]").forEach(function (button) {
      fill(button.querySelector(".frame"), data.gallery[Number(button.dataset.example)], button.dataset.method, 160);
      button.addEventListener("click", function () {
        choose(Number(button.dataset.example), button.dataset.method);
        get("look").scrollIntoView(); get("look-method").focus({ preventScroll: true });
      });
    });
    var first = data.gallery.findIndex(function (example) { return example.views[0].kind === "image"; });
    choose(Math.max(first, 0), data.own[0] && data.gallery[Math.max(first, 0)].views[0].methods.includes(data.own[0]) ? data.own[0] : null);
  }

  /* Which inputs made it lose */
  function numbers(one) {
    if (!one.parsed) {
      var raw = bytes(one.numbers), words = new Uint16Array(raw.buffer), count = one.inputs.length;
      one.parsed = {};
      one.names.forEach(function (name, line) {
        one.parsed[name] = Array.from(words.subarray(line * count, (line + 1) * count), function (value) { return value === 65535 ? NaN : one.low + one.step * value; });
      });
    }
    return one.parsed;
  }
  function names_into(select, names, wanted) {
    select.replaceChildren.apply(select, names.map(function (name) { return make("option", { value: name, textContent: data.titles[name], selected: name === wanted }); }));
  }
  function drill(place, first, second) {
    var one = data.scores[place];
    get("drill-column").value = String(place);
    var methods = one.names.filter(function (name) { return data.order.includes(name); });
    first = methods.includes(first) ? first : methods[0];
    var rival = one.rival || one.names.find(function (name) { return name !== first; });
    second = one.names.includes(second) ? second : rival;
    names_into(get("drill-first"), methods, first);
    names_into(get("drill-second"), one.names, second);
    var parsed = numbers(one), sign = one.less ? -1 : 1;
    var found = one.inputs.map(function (input, at) { return { input: input, at: at, lead: sign * (parsed[first][at] - parsed[second][at]) }; })
      .filter(function (each) { return !isNaN(each.lead); }).sort(function (a, b) { return b.lead - a.lead || a.at - b.at; });
    var won = found.filter(function (each) { return each.lead > 0; }), lost = found.filter(function (each) { return each.lead < 0; });
    get("drill-told").textContent = data.titles[first] + " against " + data.titles[second] + ": better on " + won.length + ", worse on " + lost.length
      + ", level on " + (found.length - won.length - lost.length) + " of " + found.length + " inputs; the mean lead is "
      + figure(sign * found.reduce(function (sum, each) { return sum + each.lead; }, 0) / found.length, one.digits) + (one.less ? " (less is better)" : "") + ".";
    var chart = get("drill-chart"), most = Math.max.apply(null, found.map(function (each) { return Math.abs(each.lead); })) || 1;
    chart.setAttribute("viewBox", "0 0 " + Math.max(found.length, 24) + " 100");
    chart.replaceChildren.apply(chart, found.map(function (each, at) {
      var height = 48 * Math.abs(each.lead) / most;
      return svg("rect", { "class": each.lead > 0 ? "won" : "lost", x: at + .08, width: .84, y: each.lead > 0 ? 50 - height : 50, height: height });
    }).concat([svg("line", { x1: 0, x2: Math.max(found.length, 24), y1: 50, y2: 50, "vector-effect": "non-scaling-stroke" })]));
    inputs_into("drill-lost", lost.slice(-6).reverse(), one, first, second);
    inputs_into("drill-won", won.slice(0, 6), one, first, second);
  }
  function inputs_into(id, found, one, first, second) {
    var parsed = numbers(one), list = get(id);
    list.replaceChildren.apply(list, found.length ? found.map(function (each) {
      var example = data.gallery.findIndex(function (other) { return other.input === each.input && other.columns.includes(one.column); });
      var words = figure(parsed[first][each.at], one.digits) + " against " + figure(parsed[second][each.at], one.digits);
      var frame = make("span", { className: "frame" });
      var button = make("button", { type: "button", className: "thumb" }, [frame, make("b", { textContent: each.input }), words + (example >= 0 ? "; see all maps" : "")]);
      picture(one.column, each.at, frame);
      button.addEventListener("click", function () {
        if (example >= 0) { choose(example, first, one.column); get("look").scrollIntoView(); return; }
        var big = make("div", { className: "big frame" });
        picture(one.column, each.at, big);
        enlarge(big, each.input + ": " + words);
      });
      return make("li", {}, [button]);
    }) : [make("li", { className: "soft", textContent: "none" })]);
  }
  function picture(column, at, frame) {
    var set = data.pictures.sets ? data.pictures.sets[data.pictures.of[column]] : undefined;
    if (!set) { return; }
    if (set.kind === "signal") {
      set.bytes = set.bytes || bytes(set.data);
      frame.replaceChildren(drawn_signal(Array.from(set.bytes.subarray(at * set.length, (at + 1) * set.length)), [], null));
      return;
    }
    if (!set.ready) { var image = new Image(); image.src = set.data; set.ready = image.decode().then(function () { return image; }); }
    set.ready.then(function (image) {
      var canvas = make("canvas", { width: set.width, height: set.height });
      canvas.getContext("2d").drawImage(image, at % set.sheet * set.width, Math.floor(at / set.sheet) * set.height, set.width, set.height, 0, 0, set.width, set.height);
      frame.replaceChildren(canvas);
    });
  }
  if (data.scores.length) {
    get("drill").hidden = false;
    var start = data.scores.findIndex(function (one) { return data.pictures.of && one.column in data.pictures.of && data.pictures.sets[data.pictures.of[one.column]].kind === "image"; });
    drill(Math.max(start, 0), data.own[0]);
    get("drill-column").addEventListener("change", function () { drill(Number(this.value), get("drill-first").value, get("drill-second").value); });
    ["drill-first", "drill-second"].forEach(function (id) {
      get(id).addEventListener("change", function () { drill(Number(get("drill-column").value), get("drill-first").value, get("drill-second").value); });
    });
  }

  /* On paper, what explains the figures is open; what a program printed stays in its file */
  window.addEventListener("beforeprint", function () { all("details.print").forEach(function (part) { part.open = true; }); });
}());
