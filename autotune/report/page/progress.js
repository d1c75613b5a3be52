// Draws the best time so far, and compares the models' predictions with the measured times.

// Colours of the sources of trials; the seed and the analytic config have the colours of their reference
// lines.
const source_colours = (() => {
  const known = {seed: 'var(--c1)', analytic: 'var(--c5)', model: 'var(--c0)', descent: 'var(--c3)', random: 'var(--faint)'};
  const others = [2, 4, 6, 7].map(category_colour);
  return trial_column('source').labels.map(s => known[s] ?? others.shift() ?? 'var(--faint)');
})();
const source_colour = i => source_colours[trial_column('source').values[i]];

// Draws labels at the right end of the lines, moved apart where lines are close together.
function line_labels(f, lines) {
  const gap = 13;
  const placed = lines.map(l => ({...l, y: Math.min(f.base - 4, Math.max(f.top + 4, f.sy.at(l.seconds)))})).sort((a, b) => a.y - b.y);
  placed.forEach((l, i) => { if (i) l.y = Math.max(l.y, placed[i - 1].y + gap); });
  for (let i = placed.length - 1, most = f.base + 4; i >= 0; --i, most = placed[i + 1].y - gap) placed[i].y = Math.min(placed[i].y, most);
  for (const l of placed)
    f.svg.append(element('text', {x: f.right + 6, y: l.y + 4, style: 'fill:' + l.colour, class: l.strong ? 'strong' : null}, l.text));
}

const reference_colours = {default: 'var(--c1)', analytic: 'var(--c5)', bound: 'var(--c2)', 'known best': 'var(--c3)'};

// Draws the trials and returns the number of marks, which the test of the page checks.
function draw_progress(host, x_of, x_title, x_format, whole) {
  const lines = report.references.filter(r => is_number(r.seconds));
  const timed = trial_indices.filter(i => is_number(times[i]));
  const f = frame(host, {
    height: 330, right: 86,
    top: timed.length < trial_count ? 30 : 12,
    x: {values: trial_indices.map(x_of).concat(0), log: false, title: x_title, format: x_format, pad: 0.02, whole},
    y: {values: timed.map(i => times[i]).concat(lines.map(l => l.seconds)), log: true, title: 'time of a launch', format: t => format_time(t, 2)},
  });
  for (const l of lines)
    f.svg.append(element('line', {class: 'reference', x1: f.left, x2: f.right, y1: f.sy.at(l.seconds), y2: f.sy.at(l.seconds), stroke: reference_colours[l.name]}));
  let path = '', best = Infinity, drawn = 0;
  if (timed.length < trial_count) f.svg.append(element('text', {x: f.left - 7, y: 14, 'text-anchor': 'end'}, 'failed'));
  for (const i of trial_indices) {
    const x = f.sx.at(x_of(i));
    if (!is_number(times[i])) {
      f.svg.append(cross(i, x, 10));
      ++drawn;
      continue;
    }
    f.svg.append(dot(i, x, f.sy.at(times[i]), source_colour(i), trial_count > 300 ? 3 : 4));
    ++drawn;
    if (times[i] < best) {
      path += path ? 'H' + x + 'V' + f.sy.at(times[i]) : 'M' + x + ' ' + f.sy.at(times[i]);
      best = times[i];
    }
  }
  if (path) f.svg.append(element('path', {class: 'best-line', d: path + 'H' + f.right, 'pointer-events': 'none'}));
  const labels = lines.map(l => ({seconds: l.seconds, text: l.name, colour: reference_colours[l.name]}));
  if (Number.isFinite(best)) labels.push({seconds: best, text: 'best', colour: 'var(--text)', strong: true});
  line_labels(f, labels);
  trial_tips(f.svg);
  return drawn;
}

function progress_section(card) {
  const at = trial_column('at').values;
  const timed = at.some(s => s > 0); // a replay of a table takes no time
  const by_trial = element('div'), by_time = element('div');
  card.append(
    element('p', {class: 'note'}, 'Each dot is a trial, and the line is the best time so far. The dashed lines are the times without tuning, and the bound that no config beats. Point at a dot to see its config.'),
    element('div', {class: 'row'}, by_trial, timed ? by_time : null),
    legend(trial_column('source').labels.map((s, i) => [source_colours[i], s || 'unnamed'])));
  return () => {
    const drawn = draw_progress(by_trial, i => i + 1, 'trial', t => String(t), true);
    if (timed) draw_progress(by_time, i => at[i] ?? 0, 'seconds of search', t => trimmed(digits(t, 4)), false);
    return drawn;
  };
}

function prediction_section(card) {
  if (report.predictions.length === 0) {
    card.append(element('p', {class: 'note'}, 'No model predicted the times of two or more trials.'));
    return null;
  }
  card.append(element('p', {class: 'note'},
    'On the dashed line the prediction is exact. The search only uses the order of the predictions. Kendall’s tau is 1 if the predicted order is right, and 0 if it is unrelated to the measured order. ' +
    'The recall is how many of the eight fastest trials are among the eight that were predicted to be fastest.'));
  const row = element('div', {class: 'row'});
  card.append(row);
  const draws = report.predictions.map(p => {
    const column = columns.get((p.column === 'predicted' ? 'trial/' : 'analytic/') + p.column);
    const host = element('div');
    row.append(element('div', {}, element('h3', {}, p.model),
      element('p', {class: 'small soft'}, 'τ = ' + (p.tau === null ? 'not defined' : p.tau.toFixed(2)) +
        (p.recall === null ? '' : ', top-' + p.of + ' recall ' + Math.round(p.recall * p.of) + ' of ' + p.of) + ', ' + p.trials + ' trials'), host));
    return () => {
      const known = trial_indices.filter(i => is_number(times[i]) && column.values[i] > 0);
      const predicted = known.map(i => column.values[i]), measured = known.map(i => times[i]);
      const axis = {log: true, format: t => format_time(t, 2), ticks: 5};
      const f = frame(host, {height: 310, top: 24, x: {...axis, values: predicted, title: 'predicted'}, y: {...axis, values: measured, title: 'measured'}, right: 16});
      // The line on which both times are equal, within the range that both axes share.
      const ends = [Math.max(Math.min(...predicted), Math.min(...measured)), Math.min(Math.max(...predicted), Math.max(...measured))];
      if (ends[0] < ends[1])
        f.svg.append(element('path', {d: 'M' + f.sx.at(ends[0]) + ' ' + f.sy.at(ends[0]) + 'L' + f.sx.at(ends[1]) + ' ' + f.sy.at(ends[1]), stroke: 'var(--faint)', 'stroke-dasharray': '4 4'}));
      f.svg.append(element('text', {x: f.left, y: 12}, 'measured'));
      for (const i of known) f.svg.append(dot(i, f.sx.at(column.values[i]), f.sy.at(times[i]), 'var(--c0)'));
      trial_tips(f.svg);
    };
  });
  return () => draws.forEach(d => d());
}
