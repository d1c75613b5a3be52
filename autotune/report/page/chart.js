// Draws axes, dots, crosses, legends and tooltips as SVG and HTML elements.

const svg_names = new Set(['svg', 'g', 'path', 'line', 'circle', 'rect', 'text']);
// element('p', {class: 'note'}, 'text', child, ...) creates an element. Texts become text nodes, so they are
// never parsed as markup.
function element(name, attributes = {}, ...children) {
  const e = svg_names.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) e.setAttribute(key, value);
  e.append(...children.flat().filter(c => c !== null && c !== undefined));
  return e;
}

// Returns the colour of a category: eight colours that people with any colour vision can distinguish; all
// further categories are grey.
const category_colour = i => (i < 8 ? 'var(--c' + i + ')' : 'var(--faint)');
// Returns the colour of a quantity: six colours of increasing lightness, interpolated.
function ramp_colour(share) {
  const at = Math.min(1, Math.max(0, share)) * 5, i = Math.min(4, Math.floor(at));
  const part = Math.round(100 * (at - i));
  return part === 0 ? 'var(--r' + i + ')' : 'color-mix(in oklab, var(--r' + (i + 1) + ') ' + part + '%, var(--r' + i + '))';
}

// Return round numbers within the domain as axis ticks.
function linear_ticks(low, high, count) {
  const raw = (high - low) / count, size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(f => f * size).find(s => s >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}
function log_ticks(low, high, count) {
  const ticks = [];
  for (const factors of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
    ticks.length = 0;
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); ++e)
      for (const f of factors)
        if (f * 10 ** e >= low * 0.9999 && f * 10 ** e <= high * 1.0001) ticks.push(f * 10 ** e);
    if (ticks.length <= count + 1) break;
  }
  while (ticks.length > 2 * count) ticks.splice(0, ticks.length, ...ticks.filter((_, i) => i % 2 === 0));
  return ticks.length >= 3 ? ticks : linear_ticks(low, high, count);
}

// Maps values to pixels: numbers on a linear or logarithmic axis, or labels at equal distances.
function make_scale(values, from, to, {log = null, labels = null, pad = 0.04, ticks = 6, whole = false} = {}) {
  if (labels) {
    const step = (to - from) / Math.max(1, labels.length);
    return {at: v => from + (v + 0.5) * step, step: Math.abs(step), ticks: labels.map((_, i) => i), labels};
  }
  const known = values.filter(is_number);
  let low = Math.min(...known), high = Math.max(...known);
  if (known.length === 0 || (low === 0 && high === 0)) low = 0, high = 1;
  if (log === null) log = low > 0 && high / low > 15;
  log = log && low > 0;
  if (low === high) log ? (low /= 1.3, high *= 1.3) : (low -= Math.abs(low) / 2 || 0.5, high += Math.abs(high) / 2 || 0.5);
  const f = log ? Math.log : x => x, back = log ? Math.exp : x => x;
  const margin = (f(high) - f(low)) * pad;
  const a = f(low) - margin, b = f(high) + margin;
  let marks = log ? log_ticks(back(a), back(b), ticks) : linear_ticks(a, b, ticks);
  if (whole) marks = marks.filter(Number.isInteger);
  if (low >= 0) marks = marks.filter(t => t >= 0);
  return {at: v => from + ((f(v) - a) / (b - a)) * (to - from), step: 0, ticks: marks, log};
}

// Draws a chart's axes into `host`. Returns the SVG element, the scales and the edges of the plot area.
function frame(host, {height, left = 62, right = 12, top = 10, bottom = 42, x, y}) {
  const width = Math.max(200, host.clientWidth || 600);
  const svg = element('svg', {viewBox: '0 0 ' + width + ' ' + height, height, role: 'img', 'aria-label': y.title + ' by ' + x.title});
  const sx = make_scale(x.values, left, width - right, x);
  const sy = make_scale(y.values, height - bottom, top, y);
  const base = height - bottom;
  const every = sx.labels ? Math.max(1, Math.ceil((sx.labels.length * 34) / (width - left - right))) : 1;
  for (const t of sy.ticks) {
    svg.append(element('line', {class: 'grid', x1: left, x2: width - right, y1: sy.at(t), y2: sy.at(t)}));
    svg.append(element('text', {x: left - 7, y: sy.at(t) + 4, 'text-anchor': 'end'}, shortened(y.format(t), 11)));
  }
  sx.ticks.forEach((t, i) => {
    if (i % every) return;
    svg.append(element('text', {x: sx.at(t), y: base + 16, 'text-anchor': 'middle'}, shortened(x.format(t), 12)));
    if (!sx.labels) svg.append(element('line', {class: 'axis', x1: sx.at(t), x2: sx.at(t), y1: base, y2: base + 4}));
  });
  svg.append(element('line', {class: 'axis', x1: left, x2: width - right, y1: base, y2: base}));
  if (x.title) svg.append(element('text', {x: (left + width - right) / 2, y: height - 5, 'text-anchor': 'middle'}, x.title));
  host.replaceChildren(svg);
  return {svg, sx, sy, left, right: width - right, top, base, width};
}
const shortened = (text, most) => (text.length > most ? text.slice(0, most - 1) + '…' : text);

const tip = document.getElementById('tip');
function show_tip(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - 16 - box.width : event.clientX + 16;
  const y = Math.min(event.clientY + 12, innerHeight - box.height - 8);
  tip.style.left = Math.max(4, x) + 'px';
  tip.style.top = Math.max(4, y) + 'px';
}
// Highlights the marks of one trial in all charts when the pointer is over one of them.
let lit = [];
function light(trial) {
  lit.forEach(e => e.classList.remove('on'));
  lit = trial === null ? [] : [...document.querySelectorAll('[data-trial="' + trial + '"]')];
  lit.forEach(e => e.classList.add('on'));
}
function trial_tips(svg) {
  const nearest = event => {
    const mark = event.target.closest('[data-trial]');
    if (mark) return Number(mark.dataset.trial);
    // A mark within ten pixels of the pointer counts too.
    const box = svg.getBoundingClientRect();
    let best = null, least = 100;
    for (const m of svg.querySelectorAll('[data-trial]')) {
      const d = (box.left + Number(m.dataset.x) - event.clientX) ** 2 + (box.top + Number(m.dataset.y) - event.clientY) ** 2;
      if (d < least) least = d, best = Number(m.dataset.trial);
    }
    return best;
  };
  svg.addEventListener('pointermove', event => {
    const trial = nearest(event);
    light(trial);
    trial === null ? (tip.hidden = true) : show_tip(event, describe(trial));
  });
  svg.addEventListener('pointerleave', () => (light(null), (tip.hidden = true)));
}
function dot(trial, x, y, colour, radius = 4) {
  return element('circle', {class: 'dot', cx: x, cy: y, r: radius, fill: colour, 'data-trial': trial, 'data-x': x, 'data-y': y});
}
function cross(trial, x, y) {
  return element('path', {class: 'cross', d: 'M' + (x - 3) + ' ' + (y - 3) + 'l6 6m0 -6l-6 6', 'data-trial': trial, 'data-x': x, 'data-y': y});
}

function legend(entries) {
  return element('div', {class: 'legend'}, entries.map(([colour, text]) =>
    element('span', {}, element('i', {style: 'background:' + colour}), text)));
}
// Draws a horizontal bar for each row, between its name and its value.
function meters(rows) {
  const most = Math.max(...rows.map(r => r.value), 1e-300);
  return element('div', {class: 'meter'}, rows.flatMap(r => [
    element('span', {class: 'label'}, r.name),
    element('div', {class: 'track'}, element('div', {class: 'fill', style: 'width:' + (100 * r.value) / most + '%;background:' + r.colour})),
    element('span', {class: 'soft'}, r.text)]));
}
