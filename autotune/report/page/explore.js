// Plots any column against any other, coloured by a third.

// The effects of the knobs, the knob that explains the largest part of the variance first.
const ranked_effects = report.effects.map((e, i) => ({...e, column: knobs[i]}))
  .sort((a, b) => (b.share ?? -1) - (a.share ?? -1));

// The columns that have at least one known value, and the trial's number.
const choosable = [{group: 'trial', name: 'trial', unit: '', values: trial_indices.map(i => i + 1)},
  ...report.columns.filter(c => c.name !== 'message' && c.values.some(v => v !== null) && !(c.labels && c.labels.length === 0))];
const group_titles = {trial: 'trial', knob: 'knobs', fact: 'compiled code', analytic: 'analytic model'};

function chooser(label, chosen, none) {
  const select = element('select', {'aria-label': label});
  if (none) select.append(element('option', {value: ''}, 'one colour'));
  for (const group of Object.keys(group_titles)) {
    const members = choosable.filter(c => c.group === group);
    if (members.length)
      select.append(element('optgroup', {label: group_titles[group]}, members.map(c => element('option', {value: choosable.indexOf(c)}, title_of(c)))));
  }
  select.value = chosen ? choosable.indexOf(chosen) : '';
  return {box: element('label', {}, label, select), select, column: () => choosable[select.value] ?? null};
}

// Returns the colouring by a column: {of: function from trial to colour, key: element that explains the
// colours}.
function colouring(column) {
  if (!column) return {of: () => 'var(--c0)', key: null};
  const known = column.values.filter(v => v !== null);
  if (column.labels && !column.ordered) {
    const used = [...new Set(known)].sort((a, b) => a - b);
    return {of: i => (column.values[i] === null ? 'var(--faint)' : category_colour(used.indexOf(column.values[i]))),
      key: legend(used.map((v, i) => [category_colour(i), shortened(column.labels[v], 40)]))};
  }
  const scale = make_scale(known, 0, 1, {pad: 0, log: column.labels ? false : null});
  const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 0];
  const gradient = [0, 1, 2, 3, 4, 5].map(i => 'var(--r' + i + ')').join(',');
  return {of: i => (column.values[i] === null ? 'var(--faint)' : ramp_colour(scale.at(column.values[i]))),
    key: element('div', {class: 'legend'}, element('span', {}, format_value(column, low),
      element('div', {class: 'ramp', style: 'background:linear-gradient(to right,' + gradient + ')'}), format_value(column, high)))};
}

// Returns an offset that spreads out the trials with one value of a knob, so that they do not hide each
// other.
function spread(trial, step) {
  return step * 0.6 * (((trial * 0.618034) % 1) - 0.5);
}

function explore_section(card) {
  const time = trial_column('time');
  const [first, second] = ranked_effects.filter(e => new Set(e.column.values).size > 1).map(e => e.column);
  const has_time = time.values.some(is_number);
  const x = chooser('horizontal', first ?? choosable[0]), y = chooser('vertical', has_time ? time : trial_column('batch'));
  const colour = chooser('colour', second ?? (has_time ? trial_column('source') : trial_column('outcome')), true);
  const host = element('div'), key = element('div');
  card.append(element('div', {class: 'choices'}, x.box, y.box, colour.box), host, key);
  const draw = () => {
    const cx = x.column(), cy = y.column(), shades = colouring(colour.column());
    const shown = trial_indices.filter(i => cx.values[i] !== null && cy.values[i] !== null);
    const axis = c => ({values: shown.map(i => c.values[i]), labels: c.labels, title: title_of(c),
      format: v => (c.labels ? c.labels[v] : c.unit === 's' ? format_time(v, 2) : c.unit === 'B' ? format_bytes(v) : format_count(v))});
    const f = frame(host, {height: 380, left: cy.labels ? 96 : 62, x: axis(cx), y: axis(cy)});
    f.svg.append(element('text', {x: 0, y: f.top}, cy.labels ? title_of(cy) : ''));
    for (const i of shown)
      f.svg.append(dot(i, f.sx.at(cx.values[i]) + spread(i, f.sx.step), f.sy.at(cy.values[i]) + spread(i * 7, f.sy.step), shades.of(i), 4.5));
    trial_tips(f.svg);
    const missing = trial_count - shown.length;
    key.replaceChildren(...[shades.key, missing ? element('p', {class: 'small soft'}, missing + (missing === 1 ? ' trial has' : ' trials have') + ' no value for one of these columns.') : null].filter(Boolean));
    host.dataset.points = shown.length;
  };
  for (const c of [x, y, colour]) c.select.addEventListener('change', draw);
  return draw;
}
