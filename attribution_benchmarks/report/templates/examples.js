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
  function choose(number, method) {
    var keys = Object.keys(data.gallery[number].values), select = get("look-column");
    look.example = number; look.method = method || look.method;
    look.column = keys.includes(look.column) ? look.column : keys[0] || "";
    get("look-input").value = String(number);
    select.replaceChildren.apply(select, keys.map(function (one) { return make("option", { value: one, textContent: column_of(one).title, selected: one === look.column }); }));
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
    var first = data.gallery.findIndex(function (example) { return example.views[0].kind === "image"; });
    choose(Math.max(first, 0), data.own[0] && data.gallery[Math.max(first, 0)].views[0].methods.includes(data.own[0]) ? data.own[0] : null);
  }
}());
