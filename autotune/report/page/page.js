// Puts the sections on the page, and sets data-state on <html> to "ready" or "failed".

const page = document.getElementById('page'), state = document.documentElement.dataset;
state.errors = '0';
function failed(where, error) {
  state.errors = String(Number(state.errors) + 1);
  state.lastError = where + ': ' + error;
}
addEventListener('error', event => failed('page', event.message));

function tile(what, value, more, kind = '') {
  return element('div', {class: 'tile'}, element('div', {class: 'what'}, what), element('div', {class: 'value ' + kind}, value), element('div', {class: 'more'}, more));
}
const stops = {trials: 'stopped at the limit of trials', seconds: 'stopped at the time limit', patience: 'stopped: no recent improvement', chance: 'stopped: a faster config is unlikely',
  exhausted: 'all configs were tried', interrupted: 'interrupted', 'one point': 'the space has only one config'};

function head() {
  const {best, work, references, time} = report;
  const seconds_of = name => references.find(r => r.name === name)?.seconds;
  page.append(element('header', {}, element('h1', {}, report.kernel || 'A tuning run'),
    element('p', {class: 'problem'}, [report.problem, report.device].filter(Boolean).join('  ·  '))));
  const tiles = element('div', {class: 'tiles'});
  const timed = times.filter(is_number).length;
  if (best) {
    const sure = best.low && best.high ? '95 %: ' + format_time(best.low, 4) + ' to ' + format_time(best.high, 4) : '';
    tiles.append(tile('best', format_time(best.seconds, 4), [sure, best.confirmed ? '' : 'not confirmed'].filter(Boolean).join(', ')));
    const before = seconds_of('default'), bound = seconds_of('bound'), known = seconds_of('known best');
    if (before) tiles.append(tile('speedup over the default', '× ' + digits(before / best.seconds, 3), 'default: ' + format_time(before, 4), before > best.seconds * 1.02 ? 'good' : ''));
    if (known) tiles.append(tile('speed relative to the known best', format_percent(known / best.seconds), 'known best: ' + format_time(known, 4)));
    if (bound) tiles.append(tile('fraction of the roofline', best.seconds < bound ? 'over 100\u00a0%' : format_percent(bound / best.seconds), (best.seconds < bound ? 'the model’s ' : '') + 'bound: ' + format_time(bound, 4)));
    if (work.flops && best.seconds) tiles.append(tile('arithmetic', format_count(work.flops / best.seconds, 'FLOP/s'), work.bytes ? format_count(work.bytes / best.seconds, 'B/s') + ' of memory traffic, if each byte moves once' : ''));
  } else {
    tiles.append(tile('best', 'none', 'no config worked', 'bad'));
  }
  const size = report.space.size;
  tiles.append(tile('trials', String(trial_count), [trial_count - timed ? trial_count - timed + ' failed' : '',
    report.compiled_only ? report.compiled_only + ' more only compiled' : '',
    size ? 'of ' + (report.space.exact ? '' : 'about ') + format_whole(size) + ' configs' : ''].filter(Boolean).join(', ')));
  if (time.seconds > 0) tiles.append(tile('search', format_time(time.seconds), stops[report.stopped] ?? report.stopped));
  page.append(tiles);
  if (!best) return;
  const copy = element('button', {type: 'button', onclick: () => navigator.clipboard?.writeText(best.config).then(() => (copy.textContent = 'copied'), () => {})}, 'copy');
  page.append(element('div', {class: 'winner'}, knobs.map((k, i) => element('span', {class: 'chip mono'}, k.name + '=', element('b', {}, k.labels[best.point[i]] ?? '?'))), copy));
}

const sections = [
  ['Best so far', progress_section, ''],
  ['The ten fastest configs', top_section, ''],
  ['Explore the trials', explore_section, ''],
  ['The effect of each knob', knob_section, ''],
  ['Predicted and measured times', prediction_section, ''],
  ['Why the best config is fast', why_section, 'left'],
  ['Failures', failure_section, 'right'],
  ['Where the time went', time_section, 'right'],
  ['The machine and the run', machine_section, 'right'],
  ['', trials_section, ''],
];

try {
  head();
} catch (error) {
  failed('head', error);
}
const cards = element('div', {class: 'cards'}), left = element('div', {class: 'column'}), right = element('div', {class: 'column'});
const places = {'': cards, left, right};
page.append(cards);
const draws = [];
let drawn_sections = 0;
for (const [title, section, place] of sections) {
  const card = element('section', {class: 'card'}, title ? element('h2', {}, title) : null);
  if (places[place] !== cards && !left.isConnected) cards.append(left, right);
  places[place].append(card);
  try {
    const draw = trial_count || section !== explore_section ? section(card) : null;
    if (draw) draws.push([title, draw]);
    ++drawn_sections;
  } catch (error) {
    failed(title, error);
    card.append(element('p', {class: 'bad'}, 'This part could not be drawn: ' + error));
  }
}
page.append(element('footer', {}, 'Kiln ' + report.version + ', `kiln tune`'));

// Charts are drawn for the current width, and redrawn when it changes.
function draw_all() {
  for (const [title, draw] of draws)
    try {
      const points = draw();
      if (draw === draws[0][1] && points !== undefined) state.points = String(points);
    } catch (error) {
      failed(title, error);
    }
  state.sections = String(drawn_sections);
  state.state = state.errors === '0' ? 'ready' : 'failed';
}
draw_all();
let pending = 0, width = innerWidth;
addEventListener('resize', () => {
  if (width === innerWidth) return;
  width = innerWidth;
  cancelAnimationFrame(pending);
  pending = requestAnimationFrame(draw_all);
});
