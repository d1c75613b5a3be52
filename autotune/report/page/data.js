// Reads the report's data from the page, and formats numbers, values and trials as text.
'use strict';

// The report is an object with these fields; null stands for what is not known:
//   {kernel, problem, device, strategy, version, stopped,
//    trials: count,
//    best: {seconds, low, high, launches, facts, config, point, confirmed} or null,
//    top: [the same fields as best, without point, with trial],
//    references: [{name, title, seconds, config, outcome}],
//    columns: [{group, name, unit, values} or {group, name, labels, values: indices, ordered}],
//    effects: [{knob, share, values: [{tried, ok, best, median}]}],
//    predictions: [{model, column, trials, tau, recall, of}],
//    failures: [{kind, count, messages}],
//    space: {size, exact, combinations, tried, removed},
//    time, why, work, machine, ...}
const report = JSON.parse(document.getElementById('data').textContent);

const columns = new Map(report.columns.map(c => [c.group + '/' + c.name, c]));
const trial_column = name => columns.get('trial/' + name);
const knobs = report.columns.filter(c => c.group === 'knob');
const times = trial_column('time').values;
const trial_count = report.trials;
const trial_indices = [...Array(trial_count).keys()];

const is_number = x => typeof x === 'number' && Number.isFinite(x);
const digits = (x, n = 3) => {
  if (x === 0) return '0';
  const size = Math.floor(Math.log10(Math.abs(x)));
  return size >= n - 1 ? Math.round(x).toString() : size < -4 ? x.toExponential(n - 1) : x.toFixed(n - 1 - size);
};
const trimmed = text => (text.includes('.') && !text.includes('e') ? text.replace(/\.?0+$/, '') : text);

function scaled(x, step, prefixes, unit, n) {
  let i = 0;
  while (Math.abs(x) >= step && i + 1 < prefixes.length) x /= step, ++i;
  return digits(x, n) + '\u00a0' + prefixes[i] + unit; // no line break between number and unit
}
function format_time(s, n = 3) {
  if (!is_number(s)) return 'not known';
  const units = [[120, 60, 'min'], [1, 1, 's'], [1e-3, 1e-3, 'ms'], [1e-6, 1e-6, 'µs'], [1e-300, 1e-9, 'ns'], [0, 1, 's']];
  const [, unit, name] = units.find(([least]) => Math.abs(s) >= least);
  return digits(s / unit, n) + '\u00a0' + name;
}
const format_bytes = b => scaled(b, 1024, ['', 'Ki', 'Mi', 'Gi', 'Ti'], 'B', 3);
const format_count = (x, unit = '') => scaled(x, 1000, ['', 'k', 'M', 'G', 'T', 'P'], unit, 3).trim();
const format_percent = x => (!is_number(x) ? 'not known' : x > 0 && x < 1e-3 ? '< 0.1\u00a0%' : digits(100 * x, x < 0.01 ? 2 : 3) + '\u00a0%');
const format_whole = n => (n < 1e7 ? Math.round(n).toLocaleString('en') : n.toExponential(1).replace('e+', ' × 10^'));

// Formats a value of a column as text.
function format_value(column, value) {
  if (value === null || value === undefined) return 'not known';
  if (column.labels) return column.labels[value];
  if (column.unit === 's') return format_time(value);
  if (column.unit === 'B') return format_bytes(value);
  return Number.isInteger(value) && Math.abs(value) < 1e6 ? String(value) : trimmed(digits(value, 4));
}
const title_of = column => column.name.replace(/_bytes$/, '').replace(/_/g, ' ');

function config_of(trial) {
  return knobs.map(k => k.name + ' = ' + format_value(k, k.values[trial])).join('\n');
}
function describe(trial) {
  const outcome = trial_column('outcome'), source = trial_column('source'), message = trial_column('message');
  const label = c => c.labels[c.values[trial]] ?? '';
  const low = trial_column('low').values[trial], high = trial_column('high').values[trial];
  const result = is_number(times[trial])
    ? format_time(times[trial], 4) + (low > 0 && high > 0 ? '  (95 %: ' + format_time(low) + ' to ' + format_time(high) + ')' : '')
    : label(outcome) + (label(message) ? ': ' + label(message).slice(0, 160) : '');
  return 'trial ' + (trial + 1) + (label(source) ? ', ' + label(source) : '') + '\n' + result + '\n' + config_of(trial);
}
