"use strict";
(() => {
const root = document.documentElement;
const errors = [];
const note = text => { errors.push(String(text)); root.dataset.errors = JSON.stringify(errors); };
root.dataset.errors = "[]";
addEventListener("error", event => note(event.message));
document.addEventListener("securitypolicyviolation", event => note(event.violatedDirective));

// Paper is light, whatever the screen is.
let printing = false;
const SVG = "http://www.w3.org/2000/svg";
const data = JSON.parse(document.getElementById("data").textContent);
const find = id => document.getElementById(id);
const fill = (node, attributes, children) => {
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  for (const child of children) if (child !== null) node.append(child);
  return node;
};
const make = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
const draw = (name, attributes = {}, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

// Words for numbers, as the command has them.
const bytes = count => {
  if (count === null) return "? B";
  if (count < 1024) return count + " B";
  let unit = -1;
  do { count /= 1024; unit++; } while (count >= 999.95 && unit < 5);
  return count.toFixed(1) + " " + ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit];
};
const whole = count => count.toLocaleString("en-US");
const figure = value => value === null || value === undefined ? "" :
  typeof value === "string" || Number.isInteger(value) ? String(value) :
  Math.abs(value) >= 1e-2 && Math.abs(value) < 1e5 ? String(Number(value.toPrecision(4))) : value.toExponential(2);

const SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE";
const total = data.names.length;
const COLOURED = new Set(["weight", "slot", "optimizer", "ema"]);
const colourOf = kind => COLOURED.has(kind) ? kind : "other";
const column = name => at => data[name] ? data[name][at] : null;
const kindOf = at => data.kinds[data.kind[at]];
const dtypeOf = at => data.dtypes[data.dtype[at]];
const shapeOf = at => "[" + data.shapes[data.shape[at]].join(", ") + "]";
const sizeOf = at => data.bytes[at];
const keyOf = at => data.keys[at] === 0 ? data.names[at] : data.keys[at] === 1 ? data.names[at] + SUFFIX : data.keys[at];
const shownOf = at => data.names[at].replace(/\/\.OPTIMIZER_SLOT\/.*\/([^/]+)$/, "/·$1");
const elementsOf = at => data.shapes[data.shape[at]].reduce((product, dim) => product * dim, 1);
const badOf = at => data.nan ? (data.nan[at] || 0) + (data.inf[at] || 0) : 0;

const swatch = kind => draw("svg", {width: 10, height: 10, "aria-hidden": "true"},
  draw("rect", {width: 10, height: 10, rx: 2, class: colourOf(kind)}));
const press = (button, on) => button.setAttribute("aria-pressed", String(on));

// A histogram is a digit of base 36 for each bin.
const bars = (text, width, height) => {
  const step = width / text.length;
  let path = "";
  for (let bin = 0; bin < text.length; bin++) {
    const tall = parseInt(text[bin], 36) / 35 * height;
    if (tall) path += `M${(bin * step).toFixed(2)} ${height}v${(-Math.max(tall, 1)).toFixed(2)}h${(step * 0.86).toFixed(2)}V${height}z`;
  }
  return draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "histogram"},
    draw("path", {class: "bars", d: path}));
};

// Details of one tensor.
const dialog = find("details");
const showDetails = at => {
  const facts = [
    ["dtype", dtypeOf(at)], ["shape", shapeOf(at)], ["kind", kindOf(at)], ["elements", whole(elementsOf(at))],
    ["bytes", sizeOf(at) === null ? "?" : whole(sizeOf(at))],
  ];
  const crc = data.crc32c[at];
  if (crc !== null) facts.push(["crc32c", "0x" + crc.toString(16).padStart(8, "0")]);
  const failed = data.errors[at];
  if (failed) facts.push(["not read", failed]);
  if (data.of && data.of[at] !== null) {
    facts.push(["numbers of", data.ofs[data.of[at]]]);
    for (const name of ["min", "mean", "std", "max"])
      if (data[name][at] !== null) facts.push([name, String(data[name][at])]);
    facts.push(["zeros", whole(data.zeros[at])], ["NaN", whole(data.nan[at])], ["Inf", whole(data.inf[at])]);
  }
  const list = make("dl");
  for (const [name, value] of facts) list.append(make("dt", {}, name), make("dd", {}, value));
  list.append(make("dt", {}, "key"), make("dd", {}, make("code", {}, keyOf(at))));
  const close = make("button", {type: "button"}, "Close");
  close.addEventListener("click", () => dialog.close());
  const picture = data.hist && data.hist[at] ? make("div", {class: "scroll"}, bars(data.hist[at], 560, 140)) : null;
  const sampled = picture && data.sampled.includes(at) ? make("small", {}, "of a sample of the elements") : null;
  dialog.replaceChildren();
  fill(dialog, {}, [make("h3", {id: "details-name"}, data.names[at]), picture, sampled, list, close]);
  dialog.showModal();
};
dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });

// The map: a tree of scopes, each as large as its bytes.
const segmentsOf = at => shownOf(at).split("/");
const buildTree = byKind => {
  const top = {name: data.title, bytes: 0, inner: new Map(), at: null, up: null};
  for (let at = 0; at < total; at++) {
    const size = sizeOf(at);
    if (!size) continue;
    let node = top;
    node.bytes += size;
    for (const segment of byKind ? [kindOf(at), ...segmentsOf(at)] : segmentsOf(at)) {
      if (!node.inner) node.inner = new Map();
      let next = node.inner.get(segment);
      if (!next) node.inner.set(segment, next = {name: segment, bytes: 0, inner: null, at: null, up: node});
      next.bytes += size;
      node = next;
    }
    if (node.at === null) node.at = at;
  }
  return top;
};
// A variable that has slots is a group that holds itself, too.
const innerOf = node => {
  if (!node.inner) return [];
  const inner = [...node.inner.values()];
  if (node.at !== null) inner.unshift({name: node.name, bytes: sizeOf(node.at), inner: null, at: node.at, up: node});
  return inner.sort((a, b) => b.bytes - a.bytes);
};
const squarify = (items, x, y, width, height, place) => {
  let sum = 0;
  for (const item of items) sum += item.bytes;
  let from = 0;
  while (from < items.length && width > 0 && height > 0) {
    const scale = width * height / sum, side = Math.min(width, height);
    let row = 0, to = from, worst = Infinity;
    while (to < items.length) {
      const next = row + items[to].bytes * scale;
      const most = items[from].bytes * scale, least = items[to].bytes * scale;
      const ratio = Math.max(side * side * most / (next * next), next * next / (side * side * least));
      if (ratio > worst) break;
      worst = ratio; row = next; to++;
    }
    const thick = row / side;
    let along = 0;
    for (let each = from; each < to; each++) {
      const long = items[each].bytes * scale / thick;
      if (width >= height) place(items[each], x, y + along, thick, long);
      else place(items[each], x + along, y, long, thick);
      along += long; sum -= items[each].bytes;
    }
    if (width >= height) { x += thick; width -= thick; } else { y += thick; height -= thick; }
    from = to;
  }
};
const kindsBelow = node => {
  const sums = new Map(), open = [node];
  while (open.length) {
    const each = open.pop();
    if (each.at !== null) sums.set(kindOf(each.at), (sums.get(kindOf(each.at)) || 0) + sizeOf(each.at));
    if (each.inner) open.push(...each.inner.values());
  }
  return [...sums].map(([name, size]) => ({name, bytes: size})).sort((a, b) => b.bytes - a.bytes);
};
const MOST_CELLS = 3000, LETTER = 6.7;
const pane = find("map-pane");
let tree = buildTree(false), focus = tree, lastWidth = 0;
const label = (text, x, y, width, style) => {
  const room = Math.floor((width - 6) / LETTER);
  if (room < 2) return null;
  return draw("text", {x: x + 4, y, class: style}, text.length > room ? text.slice(0, room - 1) + "…" : text);
};
const layMap = () => {
  const width = Math.max(pane.clientWidth, 300), height = width < 620 ? Math.round(width * 1.25) : 460;
  lastWidth = pane.clientWidth;
  const svg = draw("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": "Map of the bytes"});
  let cells = 0;
  const open = [];
  squarify(innerOf(focus), 0, 0, width, height, (each, ...where) => open.push([each, ...where]));
  while (open.length && cells < MOST_CELLS) {
    let [node, x, y, wide, tall] = open.shift();
    if (wide < 1 || tall < 1) continue;
    cells++;
    let inner = innerOf(node), name = node.name;
    while (inner.length === 1 && inner[0].inner) {
      node = inner[0]; name += "/" + node.name; inner = innerOf(node);
    }
    if (inner.length === 1) { node = inner[0]; name += "/" + node.name; inner = []; }
    const cell = draw("g", {tabindex: "-1", role: "button", "aria-label": `${name}, ${bytes(node.bytes)}`},
      draw("title", {}, `${name}\n${bytes(node.bytes)}`));
    cell.act = node.at !== null && !inner.length ? () => showDetails(node.at) : () => zoom(node);
    const frame = {x: x.toFixed(1), y: y.toFixed(1), width: wide.toFixed(1), height: tall.toFixed(1)};
    if (!inner.length) {
      const style = colourOf(kindOf(node.at));
      cell.append(draw("rect", {...frame, class: style}));
      if (tall > 15) cell.append(label(name, x, y + 12, wide, "on-" + style) || "");
      if (tall > 30 && wide > 60) cell.append(label(bytes(node.bytes), x, y + 25, wide, "on-" + style) || "");
    } else {
      cell.append(draw("rect", {...frame, class: "group"}));
      if (wide > 34 && tall > 30) {
        const size = bytes(node.bytes), room = wide - (size.length + 2) * LETTER;
        cell.append(label(name, x, y + 12, Math.max(room, Math.min(wide, 60)), "") || "");
        if (room > 60) cell.append(draw("text", {x: x + wide - 4, y: y + 12, "text-anchor": "end"}, size));
        squarify(inner, x + 2, y + 16, wide - 4, tall - 18, (each, ...where) => open.push([each, ...where]));
      } else {
        squarify(kindsBelow(node), x, y, wide, tall, (each, left, top, w, h) => cell.append(draw("rect",
          {x: left.toFixed(1), y: top.toFixed(1), width: w.toFixed(1), height: h.toFixed(1), class: colourOf(each.name)})));
      }
    }
    svg.append(cell);
  }
  const first = svg.querySelector("g");
  if (first) first.setAttribute("tabindex", "0");
  pane.replaceChildren(svg);
  const crumbs = [];
  for (let node = focus; node; node = node.up) crumbs.unshift(node);
  const trail = find("crumbs");
  trail.replaceChildren();
  crumbs.forEach((node, number) => {
    if (number) trail.append("/");
    const last = number === crumbs.length - 1;
    const crumb = last ? make("b", {}, node.name) : make("button", {type: "button"}, node.name);
    if (!last) crumb.addEventListener("click", () => zoom(node));
    trail.append(crumb);
  });
  trail.append(" " + bytes(focus.bytes));
};
const zoom = node => { focus = node === focus && node.up ? node.up : node; layMap(); const first = pane.querySelector("g"); if (first) first.focus({preventScroll: true}); };
const cellOf = event => event.target.closest ? event.target.closest("g") : null;
pane.addEventListener("click", event => { const cell = cellOf(event); if (cell) cell.act(); });
pane.addEventListener("keydown", event => {
  const cell = cellOf(event);
  if (event.key === "Escape" && focus.up) zoom(focus.up);
  if (!cell) return;
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); cell.act(); return; }
  const next = event.key === "ArrowRight" || event.key === "ArrowDown" ? cell.nextElementSibling :
    event.key === "ArrowLeft" || event.key === "ArrowUp" ? cell.previousElementSibling : null;
  if (next) { event.preventDefault(); cell.setAttribute("tabindex", "-1"); next.setAttribute("tabindex", "0"); next.focus(); }
});
for (const byKind of [false, true]) find(byKind ? "by-kind" : "by-scope").addEventListener("click", () => {
  press(find("by-scope"), !byKind); press(find("by-kind"), byKind);
  focus = tree = buildTree(byKind); layMap();
});
if (tree.bytes) { find("map").hidden = false; layMap(); }

// The layers: a matrix of standard deviations.
const HEAT = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const layMatrix = () => {
  const {rows, columns, cells} = data.layers, canvas = find("matrix");
  const style = getComputedStyle(root), ink = printing ? "#1f2328" : style.getPropertyValue("--ink");
  const line = printing ? "#d1d9e0" : style.getPropertyValue("--line");
  let low = Infinity, high = 0;
  for (const row of cells) for (const at of row) {
    const value = at === null ? null : data.std[at];
    if (typeof value === "number" && value > 0) { low = Math.min(low, value); high = Math.max(high, value); }
  }
  if (!high) return;
  // Less than a factor of two is not shown as a difference over all colours.
  if (high < 2 * low) { const middle = Math.sqrt(low * high); low = middle / Math.SQRT2; high = middle * Math.SQRT2; }
  find("layers").hidden = false;
  const room = canvas.parentNode.clientWidth - 2, small = room < 620;
  const names = rows.map(name => { const most = small ? 18 : 44; return name.length > most ? "…" + name.slice(1 - most) : name; });
  const left = Math.max(...names.map(name => name.length)) * 6.7 + 16, tall = 19;
  const wide = Math.max(4, Math.min(54, Math.floor((room - left - 8) / columns.length)));
  const width = left + wide * columns.length + 8, height = tall * rows.length + 26, scale = devicePixelRatio || 1;
  canvas.width = width * scale; canvas.height = height * scale;
  canvas.style.width = width + "px"; canvas.style.height = height + "px";
  canvas.setAttribute("aria-label", `Standard deviations of ${rows.length} names in ${columns.length} layers; the table has the numbers`);
  const brush = canvas.getContext("2d");
  brush.scale(scale, scale);
  brush.font = "11px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace";
  brush.textBaseline = "middle";
  cells.forEach((row, number) => {
    brush.fillStyle = ink; brush.textAlign = "right";
    brush.fillText(names[number], left - 8, number * tall + tall / 2 + 3);
    row.forEach((at, place) => {
      if (at === null) return;
      const value = data.std[at];
      const share = value > 0 ? Math.log(value / low) / Math.log(high / low) : -1;
      brush.fillStyle = share < 0 ? line : HEAT[Math.max(0, Math.min(9, Math.floor(share * 10)))];
      brush.fillRect(left + place * wide, number * tall + 3, wide - (wide > 6 ? 1 : 0), tall - 1);
    });
  });
  brush.fillStyle = ink; brush.textAlign = "center";
  const every = Math.max(1, Math.ceil(26 / wide));
  columns.forEach((number, place) => { if (place % every === 0) brush.fillText(String(number), left + place * wide + wide / 2, tall * rows.length + 14); });
  const cellAt = event => {
    const row = cells[Math.floor((event.offsetY - 3) / tall)];
    const at = row && row[Math.floor((event.offsetX - left) / wide)];
    return at === undefined ? null : at;
  };
  canvas.onmousemove = event => { const at = cellAt(event); canvas.title = at === null ? "" : `${data.names[at]}\n${figure(data.std[at])}`; };
  canvas.onclick = event => { const at = cellAt(event); if (at !== null) showDetails(at); };
  const scaleBar = draw("svg", {width: 160, height: 10, "aria-hidden": "true"});
  HEAT.forEach((colour, step) => scaleBar.append(draw("rect", {x: step * 16, width: 16, height: 10, fill: colour})));
  find("heat-legend").replaceChildren(figure(low), scaleBar, figure(high) + ", logarithmic; grey: zero" + (data.layers.left_out ? `; ${whole(data.layers.left_out)} further names are not shown` : ""));
};
if (data.layers) layMatrix();

// The table: only the rows in view exist.
const COLUMNS = [
  {id: "name", title: "Tensor", of: shownOf},
  {id: "dtype", title: "Dtype", of: dtypeOf, wide: true},
  {id: "shape", title: "Shape", of: shapeOf, by: elementsOf, wide: !!data.values},
  {id: "kind", title: "Kind", of: kindOf, narrow: true},
  {id: "bytes", title: "Bytes", of: at => bytes(sizeOf(at)), by: sizeOf, right: true},
];
if (data.values) {
  for (const [id, title] of [["min", "Min"], ["mean", "Mean"], ["std", "Std"], ["max", "Max"]])
    COLUMNS.push({id, title, of: at => figure(data[id][at]), by: column(id), right: true, wide: true});
  COLUMNS.push({id: "zeros", title: "Zeros", of: at => shareOf(data.zeros[at], at), by: column("zeros"), right: true, wide: true});
  COLUMNS.push({id: "hist", title: "Values", of: () => "", by: badOf});
}
const shareOf = (count, at) => {
  if (!count) return count === 0 ? "0" : "";
  const all = elementsOf(at);
  return count === all ? "all" : `${Number((count / all * 100).toPrecision(2))} %`;
};
const HEIGHT = 32, MOST_ROWS = 60, PRINTED = 2000;
const chosen = new Set(), holder = find("rows-pane"), body = find("rows").tBodies[0];
let order = [], sorting = {column: COLUMNS[0], up: true}, onlyBad = false, current = 0;
const texts = data.names.map((name, at) => (name + " " + dtypeOf(at) + " " + shapeOf(at)).toLowerCase());
// Numbers in names count as numbers: h2 comes before h10.
const natural = new Intl.Collator("en", {numeric: true}).compare;
const compare = (a, b) => {
  const by = sorting.column.by || sorting.column.of, x = by(a), y = by(b);
  if (x === y) return a - b;
  if (x === null || x === undefined) return 1;
  if (y === null || y === undefined) return -1;
  const less = typeof x === "number" && typeof y === "number" ? x - y : natural(String(x), String(y));
  return (sorting.up ? less : -less) || a - b;
};
const choose = () => {
  const words = find("words").value.toLowerCase().split(/\s+/).filter(word => word);
  order = [];
  let size = 0, tensors = 0;
  for (let at = 0; at < total; at++) {
    if (chosen.size && !chosen.has(data.kind[at])) continue;
    if (onlyBad && !badOf(at) && !data.errors[at]) continue;
    if (!words.every(word => texts[at].includes(word))) continue;
    order.push(at); size += sizeOf(at) || 0; tensors += kindOf(at) !== "graph";
  }
  order.sort(compare);
  find("count").textContent = `${whole(tensors)} of ${whole(data.tensors)} tensors, ${bytes(size)}` +
    (data.cut ? `; the ${whole(total)} largest and all that are not finite are listed` : "");
  find("rows").setAttribute("aria-rowcount", String(order.length + 1));
  current = 0; holder.scrollTop = 0; shownFrom = -1;
  showRows();
};
const styleOf = each => [["right", each.right], ["wide", each.wide], ["narrow", each.narrow]].filter(([, on]) => on).map(([name]) => name).join(" ");
const cellFor = (at, each) => {
  const cell = make("td", {class: styleOf(each)});
  if (each.id === "name") {
    const name = shownOf(at), cut = name.startsWith("·") ? 0 : name.lastIndexOf("/") + 1;
    const slot = name.slice(cut).startsWith("·") ? name.lastIndexOf("/", cut - 2) + 1 : cut;
    cell.className = "name"; cell.title = name.slice(0, 2000);
    cell.append(make("span", {}, name.slice(0, slot)), make("b", {}, name.slice(slot)));
  } else if (each.id === "kind") {
    cell.append(make("span", {class: "tag"}, swatch(kindOf(at)), kindOf(at)));
  } else if (each.id === "hist") {
    if (data.errors[at]) { cell.className += " alarm"; cell.append("not read"); cell.title = data.errors[at]; }
    else if (badOf(at)) {
      cell.className += " alarm";
      cell.append([[data.nan[at], "NaN"], [data.inf[at], "Inf"]].filter(([count]) => count).map(([count, name]) => `${whole(count)} ${name}`).join(", "));
    } else if (data.hist[at]) cell.append(bars(data.hist[at], 84, 22));
    else if (data.min[at] !== null && data.min[at] === data.max[at]) cell.append(`all ${figure(data.min[at])}`);
  } else {
    if (each.id === "dtype" || each.id === "shape") cell.className += " mono";
    cell.append(each.of(at));
  }
  return cell;
};
const padding = count => {
  const cell = make("td");
  cell.style.height = count * HEIGHT + "px";
  return make("tr", {class: "pad", "aria-hidden": "true"}, cell);
};
let shownFrom = -1;
const showRows = (focusRow = false) => {
  const most = printing ? PRINTED : MOST_ROWS;
  const wanted = printing ? 0 : Math.max(0, Math.floor(holder.scrollTop / HEIGHT) - 16);
  const from = Math.max(0, Math.min(wanted - wanted % 8, order.length - most));
  if (from !== shownFrom || focusRow) {
    shownFrom = from;
    const to = Math.min(order.length, from + most), rows = [];
    if (from) rows.push(padding(from));
    for (let place = from; place < to; place++) {
      const row = make("tr", {tabindex: place === current ? "0" : "-1", "aria-rowindex": place + 2},
        ...COLUMNS.map(each => cellFor(order[place], each)));
      row.place = place;
      rows.push(row);
    }
    if (to < order.length && !printing) rows.push(padding(order.length - to));
    body.replaceChildren(...rows);
  }
  if (focusRow) for (const row of body.rows) if (row.place === current) row.focus({preventScroll: true});
};
const goTo = place => {
  current = Math.max(0, Math.min(order.length - 1, place));
  const top = current * HEIGHT, room = holder.clientHeight - 36;
  if (top < holder.scrollTop) holder.scrollTop = top;
  else if (top + HEIGHT > holder.scrollTop + room) holder.scrollTop = top + HEIGHT - room;
  showRows(true);
};
const STEPS = {ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -Infinity, End: Infinity};
body.addEventListener("keydown", event => {
  const row = event.target.closest("tr");
  if (!row || row.place === undefined) return;
  if (event.key === "Enter" || event.key === " ") { event.preventDefault(); showDetails(order[row.place]); }
  else if (event.key in STEPS) { event.preventDefault(); goTo(row.place + STEPS[event.key]); }
});
body.addEventListener("click", event => {
  const row = event.target.closest("tr");
  if (row && row.place !== undefined) { current = row.place; showDetails(order[row.place]); }
});
holder.addEventListener("scroll", () => showRows());
const headers = COLUMNS.map(each => {
  const button = make("button", {type: "button"}, each.title);
  const header = make("th", {scope: "col", class: `c-${each.id} ${styleOf(each)}`}, button);
  button.addEventListener("click", () => {
    sorting = {column: each, up: sorting.column === each ? !sorting.up : !(each.right || each.id === "hist")};
    markSorted(); choose();
  });
  return header;
});
const markSorted = () => headers.forEach((header, number) => {
  const sorted = sorting.column === COLUMNS[number];
  header.setAttribute("aria-sort", sorted ? (sorting.up ? "ascending" : "descending") : "none");
  header.firstChild.textContent = COLUMNS[number].title + (sorted ? (sorting.up ? " ▴" : " ▾") : "");
});
find("rows").tHead.append(make("tr", {}, ...headers));
const counts = data.kinds.map(() => 0);
for (const kind of data.kind) counts[kind]++;
data.kinds.forEach((name, kind) => {
  const button = make("button", {type: "button", "aria-pressed": "false", class: "tag"}, swatch(name), `${name} ${whole(counts[kind])}`);
  button.addEventListener("click", () => {
    if (!chosen.delete(kind)) chosen.add(kind);
    press(button, chosen.has(kind)); choose();
  });
  find("kinds").append(button);
});
if (data.values) {
  const button = make("button", {type: "button", "aria-pressed": "false"}, "only NaN or Inf");
  button.addEventListener("click", () => { onlyBad = !onlyBad; press(button, onlyBad); choose(); });
  find("kinds").append(button);
}
find("words").addEventListener("input", choose);
for (const [name, on] of [["beforeprint", true], ["afterprint", false]])
  addEventListener(name, () => { printing = on; shownFrom = -1; showRows(); if (data.layers) layMatrix(); });
addEventListener("resize", () => {
  if (tree.bytes && pane.clientWidth !== lastWidth) { layMap(); if (data.layers) layMatrix(); }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (data.layers) layMatrix(); });
find("tensors").hidden = false;
markSorted();
choose();
})();
