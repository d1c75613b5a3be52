// Shows the effect of each knob, and why the best config is fast.

function knob_section(card) {
  const varied = ranked_effects.filter(e => e.values.filter(v => v.ok).length > 1);
  const fixed = ranked_effects.filter(e => !varied.includes(e));
  card.append(element('p', {class: 'note'},
    'Each dot is a trial. For each value of a knob, the bar is the median and the ring is the best trial. A search tries good values more often than bad ones, so the medians favour values that combine well with others. The percentage is the part of the variance of log(time) that the knob’s value explains by itself.'));
  const grid = element('div', {class: 'multiples'});
  card.append(grid);
  if (fixed.length)
    card.append(element('p', {class: 'small soft'}, 'Knobs measured with only one value: ' + fixed.map(e => {
      const value = e.values.findIndex(v => v.ok);
      return e.column.name + (value < 0 ? '' : ' = ' + e.column.labels[value]);
    }).join(', ')));
  if (varied.length === 0) return null;
  const best = report.best ? report.best.point : [];
  const draws = varied.map(effect => {
    const column = effect.column, host = element('div');
    grid.append(element('div', {}, element('h3', {}, column.name, element('span', {class: 'soft', style: 'font-weight:400'},
      is_number(effect.share) ? '  explains ' + Math.round(100 * effect.share) + ' %' : '')), host));
    return () => {
      const timed = trial_indices.filter(i => is_number(times[i]) && column.values[i] !== null);
      const f = frame(host, {height: 176, left: 50, bottom: 24, right: 4,
        x: {values: [], labels: column.labels, title: '', format: v => column.labels[v]},
        y: {values: timed.map(i => times[i]), log: true, ticks: 4, title: 'time', format: t => format_time(t, 2)}});
      // All dots are one path, since each knob has as many dots as there are trials.
      const dots = timed.map(i => 'M' + (f.sx.at(column.values[i]) + spread(i, Math.min(f.sx.step, 60))).toFixed(1) + ' ' + f.sy.at(times[i]).toFixed(1) + 'h0').join('');
      f.svg.append(element('path', {d: dots, stroke: 'var(--c0)', 'stroke-width': 4, 'stroke-linecap': 'round', opacity: 0.4}));
      effect.values.forEach((v, i) => {
        if (!v.ok) return;
        const x = f.sx.at(i), half = Math.min(f.sx.step * 0.36, 22);
        f.svg.append(element('line', {x1: x - half, x2: x + half, y1: f.sy.at(v.median), y2: f.sy.at(v.median), stroke: 'var(--c1)', 'stroke-width': 2.6, 'stroke-linecap': 'round'}));
        f.svg.append(element('circle', {cx: x, cy: f.sy.at(v.best), r: 4, fill: i === best[knobs.indexOf(column)] ? 'var(--c2)' : 'var(--card)', stroke: 'var(--c2)', 'stroke-width': 2}));
      });
      f.svg.addEventListener('pointermove', event => {
        const at = (event.clientX - f.svg.getBoundingClientRect().left - f.left) / f.sx.step;
        const v = effect.values[Math.floor(at)];
        if (!v) return void (tip.hidden = true);
        show_tip(event, column.name + ' = ' + column.labels[Math.floor(at)] + '\n' + v.tried + ' tried, ' + v.ok + ' worked' +
          (v.ok ? '\nbest ' + format_time(v.best) + '\nmedian ' + format_time(v.median) : ''));
      });
      f.svg.addEventListener('pointerleave', () => (tip.hidden = true));
    };
  });
  card.append(legend([['var(--c1)', 'median'], ['var(--c2)', 'best (filled: the winner’s value)']]));
  return () => draws.forEach(d => d());
}

// Compares the best config's values with the default's, and shows what they were worth among the trials.
function choices_table() {
  const fallback = report.references.find(r => r.name === 'default');
  const given = fallback && fallback.config ? new Map(fallback.config.split(',').map(p => [p.slice(0, p.indexOf('=')), p.slice(p.indexOf('=') + 1)])) : new Map();
  const rows = ranked_effects.map(e => {
    const at = knobs.indexOf(e.column), chosen = e.values[report.best.point[at]];
    const medians = e.values.map(v => v.median).filter(is_number);
    const others = e.values.filter((v, i) => i !== report.best.point[at] && is_number(v.best)).map(v => v.best);
    const value = e.column.labels[report.best.point[at]], before = given.get(e.column.name);
    return element('tr', {}, element('td', {class: 'left'}, e.column.name), element('td', {}, element('b', {}, value ?? '?')),
      element('td', {class: before === value ? 'same' : ''}, before ?? ''),
      element('td', {}, chosen && is_number(chosen.median) && medians.length > 1 ? '× ' + digits(chosen.median / Math.min(...medians), 3) : ''),
      element('td', {}, others.length && chosen && chosen.best ? '× ' + digits(Math.min(...others) / chosen.best, 3) : 'not tried'));
  });
  return element('div', {class: 'scroll'}, element('table', {},
    element('thead', {}, element('tr', {}, element('th', {class: 'left'}, 'knob'), element('th', {}, 'chosen'), element('th', {}, 'default'),
      element('th', {title: 'the median time of the trials with this value, divided by the lowest median of any value'}, 'relative median'),
      element('th', {title: 'the time of the best trial with any other value, divided by that of the best trial with this value'}, 'best other value'))),
    element('tbody', {}, rows)));
}

function why_section(card) {
  if (!report.best) return void card.append(element('p', {class: 'note'}, 'No config worked.'));
  const {estimates, contributions} = report.why;
  if (estimates.length) {
    const e = estimates[0];
    card.append(element('p', {class: 'note'}, 'The analytic model predicts that the best config takes ' + format_time(e.seconds) +
      (e.limit ? ', limited by ' + e.limit : '') + (is_number(e.waste) && e.waste > 1.005 ? '; the busiest thread has ' + digits(e.waste, 3) + ' times an equal share' : '') +
      '. The parts overlap in time, so they do not add up to the total.'));
    const rows = [];
    const most = Math.max(...estimates.flatMap(one => Object.values(one.parts)));
    for (const part of Object.keys(e.parts)) {
      if (!estimates.some(one => one.parts[part] > most / 200)) continue; // too small to see
      estimates.forEach((one, i) => {
        rows.push({name: i ? '' : part, value: one.parts[part], colour: category_colour(i), text: format_time(one.parts[part])});
      });
    }
    if (rows.length) card.append(meters(rows), legend(estimates.map((one, i) => [category_colour(i), one.name + (is_number(one.seconds) ? ', ' + format_time(one.seconds) + ' predicted' : '')])));
  }
  if (contributions.length) {
    card.append(element('h3', {style: 'margin-top:14px'}, 'Effects of the values by the learned model'));
    card.append(meters(contributions.map(c => ({name: c.name, value: Math.abs(Math.log(c.factor)), colour: c.factor < 1 ? 'var(--c2)' : 'var(--c6)',
      text: '× ' + digits(c.factor, 3) + (c.factor < 1 ? ' faster' : ' slower')}))));
  }
  card.append(element('h3', {style: 'margin-top:14px'}, 'Its values and the default’s'), choices_table());
}
