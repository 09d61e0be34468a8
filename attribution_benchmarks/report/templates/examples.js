"use strict";
(function () {
  var data = JSON.parse(get("report-data").textContent);

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
    ["look-input", "look-column", "look-method", "look-before", "look-after", "look-strip"].forEach(function (id) {
      get(id).addEventListener(id === "look-strip" || get(id).type === "button" ? "click" : "change", function () {
        write_address("look", new URLSearchParams({ input: look.example, method: look.method, column: look.column }));
      });
    });
    get("look-input").addEventListener("change", function () { choose(Number(this.value)); });
    get("look-column").addEventListener("change", function () { look.column = this.value; strip(); });
    get("look-method").addEventListener("input", function () { look.method = methods_of(data.gallery[look.example])[Number(this.value)]; show(); });
    get("look-strength").addEventListener("input", show);
    get("look-truth").addEventListener("change", show);
    get("look-before").addEventListener("click", function () { choose((look.example + data.gallery.length - 1) % data.gallery.length); });
    get("look-after").addEventListener("click", function () { choose((look.example + 1) % data.gallery.length); });
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
    var mean = lead_of(one, first, second);
    get("drill-told").textContent = data.titles[first] + " against " + data.titles[second] + ": better on " + won.length + ", worse on " + lost.length
      + ", level on " + (found.length - won.length - lost.length) + " of " + found.length + " inputs."
      + (mean ? " Mean lead " + signed(mean[0], one) + ", 95 % interval " + signed(mean[1], one) + " to " + signed(mean[2], one) + "." : "");
    var chart = get("drill-chart"), most = Math.max.apply(null, found.map(function (each) { return Math.abs(each.lead); })) || 1;
    var wide = Math.max(found.length, 24);
    function y(lead) { return 50 - 48 * Math.max(-1, Math.min(1, lead / most)); }
    chart.setAttribute("viewBox", "0 0 " + wide + " 100");
    chart.replaceChildren.apply(chart, found.map(function (each, at) {
      return svg("rect", { "class": each.lead > 0 ? "won" : "lost", x: at + .08, width: .84, y: Math.min(50, y(each.lead)), height: Math.abs(50 - y(each.lead)) });
    }).concat(mean && mean[1] !== null && mean[2] !== null ? [svg("rect", { "class": "band", x: 0, width: wide, y: y(mean[2]), height: y(mean[1]) - y(mean[2]) })] : [])
      .concat([svg("line", { x1: 0, x2: wide, y1: 50, y2: 50, "vector-effect": "non-scaling-stroke" })]));
    all("#drill-scale span").forEach(function (label, at) { label.textContent = [signed(most, one), "0", signed(-most, one)][at]; });
    inputs_into("drill-lost", lost.slice(-6).reverse(), one, first, second);
    inputs_into("drill-won", won.slice(0, 6), one, first, second);
    maps_into(get("drill-maps"), found, one, first, second);
  }
  function signed(lead, one) { return lead === null ? "–" : (lead > 0 ? "+" : "") + figure(lead, one.digits).replace("-", "−"); }
  // The mean of the first one's lead with the ends of its interval, over inputs and networks.
  function lead_of(one, first, second) {
    var i = one.names.indexOf(first), j = one.names.indexOf(second);
    var found = one.leads.find(function (lead) { return lead[0] === i && lead[1] === j || lead[0] === j && lead[1] === i; });
    if (!found) { return null; }
    return (found[0] === i) !== one.less ? found.slice(2) : [found[2], found[4], found[3]].map(function (end) { return end === null ? null : -end; });
  }
  // The inputs with stored maps: the input, and the maps of both.
  function maps_into(list, found, one, first, second) {
    var parsed = numbers(one);
    list.replaceChildren.apply(list, found.map(function (each) {
      var number = data.gallery.findIndex(function (other) { return other.input === each.input && other.columns.includes(one.column); });
      if (number < 0) { return null; }
      var view = data.gallery[number].views[0];
      var panes = [[null, "input"], [first, data.titles[first] + " " + figure(parsed[first][each.at], one.digits)], [second, data.titles[second] + " " + figure(parsed[second][each.at], one.digits)]]
        .filter(function (pane) { return pane[0] === null || view.methods.includes(pane[0]); });
      var button = make("button", { type: "button", className: "thumb beside" }, [make("b", { textContent: data.gallery[number].title + ", lead " + signed(each.lead, one) })]);
      loaded(view).then(function (ready) {
        panes.forEach(function (pane) {
          button.append(make("span", {}, [make("span", { className: "frame" }, drawing(ready, pane[0], .85, true, 256)), pane[1]]));
        });
      });
      button.addEventListener("click", function () { choose(number, first, one.column); get("look").scrollIntoView(); });
      return make("li", {}, [button]);
    }).filter(Boolean));
    get("drill-maps-title").hidden = !list.children.length;
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
    ["drill-column", "drill-first", "drill-second"].forEach(function (id) {
      get(id).addEventListener("change", function () {
        drill(Number(get("drill-column").value), get("drill-first").value, get("drill-second").value);
        write_address("inputs", new URLSearchParams({
          column: data.scores[get("drill-column").value].column, first: get("drill-first").value, second: get("drill-second").value }));
      });
    });
  }
  function restore() {
    var look_view = read_address("look"), view = read_address("inputs");
    var number = look_view ? Number(look_view.get("input")) : NaN;
    if (data.gallery[number]) {
      choose(number, look_view.get("method"), look_view.get("column"));
      get("look").scrollIntoView();
    }
    var place = view ? data.scores.findIndex(function (one) { return one.column === view.get("column"); }) : -1;
    if (place >= 0) { drill(place, view.get("first"), view.get("second")); get("inputs").scrollIntoView(); }
  }
  window.addEventListener("hashchange", restore);
  restore();
}());
