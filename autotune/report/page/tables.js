// Shows the failures, the time split, the fastest configs, the machine, and all trials.

function failure_section(card) {
  const failed = report.failures.reduce((n, f) => n + f.count, 0);
  card.append(element('p', {class: 'note'}, failed === 0 ? 'Every trial worked.' : failed + ' of ' + trial_count + ' trials failed; each was measured in its own process.'));
  for (const f of report.failures) {
    card.append(meters([{name: f.kind, value: f.count, colour: 'transparent', text: f.count + (f.count === 1 ? ' trial' : ' trials')}]));
    const bar = card.lastChild.querySelector('.fill');
    bar.style.background = 'var(--c6)';
    bar.style.width = (100 * f.count) / Math.max(...report.failures.map(o => o.count)) + '%';
    const messages = f.messages.filter(m => m.text);
    if (messages.length)
      card.append(element('ul', {class: 'messages'}, messages.map(m => element('li', {}, m.text, m.count > 1 ? ' (' + m.count + ' times)' : ''))));
  }
  const {removed, tried} = report.space;
  if (removed.length && tried) {
    card.append(element('h3', {style: 'margin-top:14px'}, 'Configs rejected by the rules'),
      element('p', {class: 'note'}, 'Of ' + tried + ' random combinations of the knobs, the share for which each rule was the first to reject them. They are never tried.'),
      meters(removed.map(r => ({name: r.rule, value: r.points / tried, colour: 'var(--c7)', text: format_percent(r.points / tried)}))));
  }
}

const part_titles = {measure: ['measuring', 'var(--c0)'], compile: ['waiting for compilers', 'var(--c4)'], model: ['models and search', 'var(--c3)'], idle: ['other', 'var(--faint)']};
function time_section(card) {
  const {seconds, parts, compilers, jobs} = report.time;
  if (!(seconds > 0)) return void card.append(element('p', {class: 'note'}, 'No times were recorded.'));
  const shown = Object.entries(parts).filter(([, s]) => s > 0);
  card.append(
    element('div', {class: 'stack'}, shown.map(([name, s]) => element('div', {style: 'width:' + (100 * s) / seconds + '%;background:' + part_titles[name][1]}))),
    meters(shown.map(([name, s]) => ({name: part_titles[name][0], value: s, colour: part_titles[name][1], text: format_time(s) + ', ' + format_percent(s / seconds)}))));
  card.append(element('p', {class: 'small soft'}, format_time(seconds) + ' in total' +
    (compilers > 0 ? '; compilers took ' + format_time(compilers) + (jobs > 1 ? ' in total, ' + jobs + ' at a time' : ', concurrently') : '') + '.'));
}

// Draws a confidence interval on a scale that all rows share.
function interval(row, low, high) {
  const at = s => 4 + (102 * (s - low)) / (high - low || 1);
  const svg = element('svg', {class: 'interval', viewBox: '0 0 110 14', height: 14});
  svg.append(element('line', {x1: at(row.low), x2: at(row.high), y1: 7, y2: 7, stroke: 'var(--c0)', 'stroke-width': 3, 'stroke-linecap': 'round', opacity: 0.55}));
  svg.append(element('circle', {cx: at(row.seconds), cy: 7, r: 3.6, fill: 'var(--c0)'}));
  return svg;
}

function top_section(card) {
  if (report.top.length === 0) return void card.append(element('p', {class: 'note'}, 'No config worked.'));
  const known = report.top.filter(r => r.low && r.high);
  const low = Math.min(...known.map(r => Math.min(r.low, r.seconds))), high = Math.max(...known.map(r => Math.max(r.high, r.seconds)));
  // The facts of the compiled code; those of the measurement are in the table of all trials.
  const facts = [...new Set(report.top.flatMap(r => Object.keys(r.facts)))].filter(f => f !== 'disturbed' && f !== 'dropped');
  const {flops, bytes} = report.work;
  const best = report.top[0].seconds;
  const shown = knobs.filter(k => k.labels.length > 1);
  const point = row => shown.map(k => (row.trial === undefined ? null : k.values[row.trial]));
  const first = point(report.top[0]);
  const headers = ['', ...shown.map(k => k.name), 'time', '95 % interval', '', 'relative to the best', ...(flops ? ['GFLOP/s'] : []), ...(bytes ? ['GB/s'] : []), ...facts.map(f => title_of({name: f})), 'launches'];
  const rows = report.top.map((row, i) => {
    const p = point(row);
    return element('tr', {class: i === 0 ? 'first' : '', 'data-row': i}, [
      element('td', {class: 'soft'}, String(i + 1)),
      ...shown.map((k, j) => element('td', {class: i && p[j] === first[j] ? 'same' : ''}, format_value(k, p[j]))),
      element('td', {}, format_time(row.seconds, 4)),
      element('td', {}, row.low && row.high ? interval(row, low, high) : ''),
      element('td', {class: 'soft'}, row.low && row.high ? '± ' + format_percent((row.high - row.low) / 2 / row.seconds) : ''),
      element('td', {}, i ? '× ' + (row.seconds / best).toFixed(3) : ''),
      flops ? element('td', {}, digits(flops / row.seconds / 1e9, 3)) : null,
      bytes ? element('td', {}, digits(bytes / row.seconds / 1e9, 3)) : null,
      ...facts.map(f => element('td', {}, is_number(row.facts[f]) ? format_value({unit: f.endsWith('_bytes') ? 'B' : ''}, row.facts[f]) : '')),
      element('td', {class: 'soft'}, row.launches + (row.confirmed ? ' ✓' : ''))]);
  });
  const hints = {'relative to the best': 'its time divided by the best config’s', launches: 'launches that were timed; ✓: measured again, in alternation with the other finalists'};
  card.append(element('div', {class: 'scroll'}, element('table', {},
    element('thead', {}, element('tr', {}, headers.map(h => element('th', {title: hints[h]}, h)))), element('tbody', {}, rows))));
  if (report.top.some(r => r.confirmed))
    card.append(element('p', {class: 'small soft'}, '✓: measured again, in alternation with the other finalists. Values equal to the best config’s are grey.'));
}

function machine_section(card) {
  const lines = [...report.machine];
  lines.push(['strategy', report.strategy], ['stopped by', report.stopped], ['records of siblings', String(report.siblings)]);
  if (report.bad_records) lines.push(['unreadable records', report.bad_records + ' lines; `kiln records verify` lists them']);
  card.append(element('dl', {class: 'facts'}, lines.filter(([, v]) => v).flatMap(([k, v]) => [element('dt', {}, k), element('dd', {}, v)])));
}

const all_columns = () => [{group: 'trial', name: 'trial', unit: '', values: trial_indices.map(i => i + 1)}, ...report.columns];

function csv_text() {
  const quoted = text => (/[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
  const list = all_columns();
  const cell = (c, i) => (c.values[i] === null ? '' : c.labels ? c.labels[c.values[i]] : String(c.values[i]));
  return [list.map(c => quoted(c.name)), ...trial_indices.map(i => list.map(c => quoted(cell(c, i))))].map(r => r.join(',')).join('\n') + '\n';
}
function save_csv() {
  const link = element('a', {href: URL.createObjectURL(new Blob([csv_text()], {type: 'text/csv'})), download: report.kernel.replace(/\W+/g, '_') + '.csv'});
  link.click();
  URL.revokeObjectURL(link.href);
}

// The table is filled when it is opened, since a thousand trials with thirty columns take long to lay out.
function trials_section(card) {
  const host = element('div', {class: 'scroll'});
  const details = element('details', {}, element('summary', {}, 'All trials'), host);
  card.append(details, element('p', {}, element('button', {type: 'button', onclick: save_csv}, 'Save as CSV')));
  const list = all_columns().filter(c => c.values.some(v => v !== null));
  let order = trial_indices.slice(), by = null, sign = 1;
  const fill = () => host.replaceChildren(element('table', {},
    element('thead', {}, element('tr', {}, list.map(c => element('th', {}, element('button', {type: 'button', onclick: () => {
      sign = by === c ? -sign : 1;
      by = c;
      order.sort((a, b) => (c.values[a] === null) - (c.values[b] === null) || sign * ((c.values[a] ?? 0) - (c.values[b] ?? 0)));
      fill();
    }}, title_of(c)))))),
    element('tbody', {}, order.map(i => element('tr', {}, list.map(c =>
      element('td', {class: c.name === 'message' ? 'wrap' : ''}, c.values[i] === null ? '' : format_value(c, c.values[i]))))))));
  details.addEventListener('toggle', () => { if (details.open && !host.firstChild) fill(); });
}
