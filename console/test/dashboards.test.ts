import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { answerRows, partsOf, timeColumn } from '../src/dashboards/answers.ts';
import { readBound, writeBound } from '../src/dashboards/bound_text.ts';
import { type Bound, type Dashboard, type Panel, freshId, readDashboard } from '../src/dashboards/document.ts';
import flights from '../src/dashboards/flights.json';
import { COLUMNS, H_MAX, type Placed, Y_MAX, closeGaps, freePlace, inside, move, overlap, settle } from '../src/dashboards/layout.ts';
import { type Block, type Inline, readMarkdown, webAddress } from '../src/dashboards/markdown.ts';
import { metricsPicture } from '../src/dashboards/metrics_lines.ts';
import server from '../src/dashboards/server.json';
import { type Chosen, NOTHING, bind, rangeOf, readChosen, settingsOf, typed, writeChosen } from '../src/dashboards/variables.ts';
import { formatJson, parseJson, type Json } from '../src/json.ts';
import { LiveQuery } from '../src/live_query.ts';
import { readParameter } from '../src/parameters.ts';
import { VIEW, compute, newMemory } from '../src/picture.ts';
import { queryFrame } from '../src/protocol.ts';

const place = fc.record({ x: fc.integer({ min: -3, max: 14 }), y: fc.integer({ min: -2, max: 30 }), w: fc.integer({ min: -1, max: 15 }), h: fc.integer({ min: 0, max: 12 }) });
const placed = fc.array(place, { minLength: 1, maxLength: 30 }).map((places) => places.map((one, i): Placed => ({ id: `p${i}`, ...one })));

/** Every pair, cell by cell: no cell has two panels, and all cells are inside of the grid. */
function checkGrid(panels: readonly Placed[]): void {
  const taken = new Set<string>();
  for (const { id, x, y, w, h } of panels) {
    assert.ok(w >= 1 && h >= 1 && h <= H_MAX && x >= 0 && x + w <= COLUMNS && y >= 0 && y <= Y_MAX, `${id} is outside`);
    for (let i = x; i < x + w; i += 1) {
      for (let j = y; j < y + h; j += 1) {
        assert.ok(!taken.has(`${i},${j}`), `${id} overlaps another at ${i},${j}`);
        taken.add(`${i},${j}`);
      }
    }
  }
}

test('any places settle without an overlap inside of the columns, and settled places stay', () => {
  fc.assert(
    fc.property(placed, (given) => {
      const panels = settle(given);
      assert.deepEqual(panels.map(({ id }) => id), given.map(({ id }) => id));
      checkGrid(panels);
      assert.deepEqual(settle(panels), panels);
    }),
  );
});

test('a moved panel is where it was put, others move down only, and those not in the way stay', () => {
  fc.assert(
    fc.property(placed, fc.nat(), place, (given, which, to) => {
      const panels = settle(given);
      const id = (panels[which % panels.length] as Placed).id;
      const next = move(panels, id, to);
      checkGrid(next);
      const wanted = inside(to);
      const moved = next.find((panel) => panel.id === id) as Placed;
      assert.deepEqual({ x: moved.x, y: moved.y, w: moved.w, h: moved.h }, wanted);
      for (const before of panels) {
        if (before.id === id) continue;
        const after = next.find((panel) => panel.id === before.id) as Placed;
        assert.ok(after.y >= before.y && after.x === before.x && after.w === before.w && after.h === before.h);
      }
      if (!panels.some((panel) => panel.id !== id && overlap(panel, wanted))) {
        assert.deepEqual(next.filter((panel) => panel.id !== id), panels.filter((panel) => panel.id !== id), 'nothing was in the way');
      }
    }),
  );
});

test('closed gaps leave no panel that could move up, and change no order', () => {
  fc.assert(
    fc.property(placed, (given) => {
      const panels = settle(given);
      const closed = closeGaps(panels);
      checkGrid(closed);
      assert.deepEqual(closeGaps(closed), closed);
      for (const panel of closed) {
        if (panel.y === 0) continue;
        const up = { ...panel, y: panel.y - 1 };
        assert.ok(closed.some((other) => other.id !== panel.id && overlap(other, up)), `${panel.id} could move up`);
      }
    }),
  );
});

test('a free place overlaps nothing, and an unknown panel moves nothing', () => {
  fc.assert(
    fc.property(placed, fc.integer({ min: 1, max: 14 }), fc.integer({ min: 1, max: 10 }), (given, w, h) => {
      const panels = settle(given);
      const free = freePlace(panels, w, h);
      checkGrid([...panels, { id: 'new', ...free }]);
      assert.deepEqual(move(panels, 'none', free), panels);
    }),
  );
});

test('panels at the lowest row that cannot be pushed down move up instead', () => {
  const panels = [{ id: 'a', x: 0, y: Y_MAX, w: 6, h: 1 }, { id: 'b', x: 6, y: 0, w: 6, h: 1 }];
  checkGrid(move(panels, 'b', { x: 0, y: Y_MAX, w: 6, h: 1 }));
});

test('the examples are dashboards', () => {
  for (const example of [flights, server]) {
    const read = readDashboard(example as Json);
    assert.ok('dashboard' in read, JSON.stringify(read));
    checkGrid(read.dashboard.panels);
  }
});

const valid = (change: { [name: string]: unknown } = {}): Json => ({ version: 1, title: 't', panels: [{ id: 'a', x: 0, y: 0, w: 6, h: 4, source: { kind: 'text', markdown: '' } }], ...change }) as Json;
const faultsOf = (value: Json): string[] => {
  const read = readDashboard(value);
  return 'faults' in read ? read.faults.map(({ path }) => path) : [];
};

test('faults of a document are found at their place', () => {
  const panel = { id: 'a', x: 0, y: 0, w: 6, h: 4, source: { kind: 'text', markdown: '' } };
  assert.deepEqual(faultsOf(valid()), []);
  assert.deepEqual(faultsOf(valid({ version: 2 })), ['/version']);
  assert.deepEqual(faultsOf(valid({ title: '' })), ['/title']);
  assert.deepEqual(faultsOf(valid({ surprise: 1 })), ['/surprise']);
  assert.deepEqual(faultsOf(parseJson('{"version":1,"title":"t","panels":[],"__proto__":{}}')), ['/__proto__']);
  assert.deepEqual(faultsOf(valid({ panels: [panel, panel] })), ['/panels/1']);
  assert.deepEqual(faultsOf(valid({ panels: [{ ...panel, x: 8 }] })), ['/panels/0/w']);
  assert.deepEqual(faultsOf(valid({ panels: [{ ...panel, y: 1.5 }] })), ['/panels/0/y']);
  assert.deepEqual(faultsOf(valid({ panels: [{ ...panel, source: { kind: 'script', text: '' } }] })), ['/panels/0/source/kind']);
  assert.deepEqual(faultsOf(valid({ panels: [{ ...panel, source: { kind: '__proto__' } }] })), ['/panels/0/source/kind']);
  assert.deepEqual(faultsOf(valid({ panels: [{ ...panel, source: { kind: 'live', saved: 'q', text: 'x' } }] })), ['/panels/0/source/text']);
  assert.deepEqual(faultsOf(valid({ panels: [{ ...panel, source: { kind: 'sql', text: 'x', parameters: [{ time: 'now' }, ['a']] } }] })), ['/panels/0/source/parameters/0/time', '/panels/0/source/parameters/1']);
  assert.deepEqual(faultsOf(valid({ variables: [{ name: 'a b', kind: 'text' }] })), ['/variables/0/name']);
  assert.deepEqual(faultsOf(valid({ time: { from: 'x', to: '2026-01-01T00:00:00Z' } })), ['/time/from']);
  assert.deepEqual(faultsOf(valid({ time: { last_ms: 5 } })), ['/time/last_ms']);
});

test('no value at all makes the check of a document throw', () => {
  fc.assert(fc.property(fc.jsonValue(), (value) => void readDashboard(value as Json)));
  fc.assert(fc.property(fc.array(fc.jsonValue(), { maxLength: 3 }), (panels) => void readDashboard(valid({ panels }))));
});

test('a fresh id is no id of a panel', () => {
  const panels = (ids: string[]) => ids.map((id): Placed => ({ id, x: 0, y: 0, w: 1, h: 1 }));
  assert.equal(freshId(panels(['p1', 'p3'])), 'p4');
  assert.equal(freshId(panels(['a', 'p3', 'p2'])), 'p4');
});

const anyText = fc.string({ unit: 'grapheme' });
const scalar = fc.oneof(anyText, fc.constantFrom('15', 'true', 'null', '"x"', ' 1', ''), fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null));

test('a value as typed is read as that value', () => {
  fc.assert(fc.property(scalar, (value) => assert.deepEqual(readParameter(typed(value)), Object.is(value, -0) ? 0 : value)));
});

test('what is chosen comes back from its link', () => {
  const name = fc.stringMatching(/^[a-z_][a-z0-9_]{0,10}$/);
  const time = fc.oneof(fc.constant(null), fc.integer({ min: 1000, max: 1e12 }).map((last_ms) => ({ last_ms })), fc.constant({ from: '2026-11-30T12:00:00Z', to: '2026-11-30T13:00:00Z' }));
  const chosen = fc.record({ values: fc.array(fc.tuple(name, anyText), { maxLength: 5 }).map((pairs) => new Map(pairs)), time, refreshMs: fc.oneof(fc.constant(null), fc.integer({ min: 1000, max: 1e6 })), zone: fc.constantFrom(null, 'UTC', 'browser', 'Europe/Berlin') });
  fc.assert(
    fc.property(chosen, (given) => {
      const read = readChosen(`#/dashboards/x${writeChosen(given as Chosen)}`);
      assert.deepEqual({ ...read, values: [...read.values] }, { ...given, values: [...given.values] });
    }),
  );
  fc.assert(fc.property(fc.string({ unit: 'binary' }), (rest) => void readChosen(`#/dashboards/x?${rest}`)));
  assert.deepEqual(readChosen('#/dashboards/x?last=5&refresh=1&zone=Nowhere/None&from=x&to=y&v.=1&v.a%20b=2&v.__proto__=x'), { ...NOTHING, values: new Map([['__proto__', 'x']]) });
});

const board = (variables: Dashboard['variables']): Dashboard => ({ version: 1, title: 't', panels: [], ...(variables === undefined ? {} : { variables }) });

test('variables take their default, the link overrides it, and a list takes only its own values', () => {
  const dashboard = board([{ name: 'carrier', kind: 'list', values: ['UA', 'DL'], default: 'DL' }, { name: 'delay', kind: 'text', default: 15 }, { name: 'free', kind: 'query', sql: 'SELECT 1' }]);
  const usual = settingsOf(dashboard, NOTHING);
  assert.deepEqual([...usual.values], [['carrier', 'DL'], ['delay', 15], ['free', null]]);
  const given = settingsOf(dashboard, readChosen(`#/dashboards/x?v.carrier=UA&v.delay=${encodeURIComponent('"15"')}&v.free=x'); DROP STREAM s;--&v.other=1`));
  assert.deepEqual([...given.values], [['carrier', 'UA'], ['delay', '15'], ['free', "x'); DROP STREAM s;--"]]);
  assert.equal(settingsOf(dashboard, readChosen('#/dashboards/x?v.carrier=EVIL')).values.get('carrier'), 'DL');
});

test('parameters are bound by value and time; the text of the query is never changed', () => {
  const range = rangeOf({ last_ms: 60_000 }, Date.UTC(2026, 10, 30, 12));
  const values = new Map([['carrier', "UA' OR 1 = 1"]]);
  const bound = bind([1, 'a', null, true, { variable: 'carrier' }, { variable: 'none' }, { time: 'from' }, { time: 'to' }], values, range);
  assert.deepEqual(bound, [1, 'a', null, true, "UA' OR 1 = 1", null, '2026-11-30T11:59:00.000Z', '2026-11-30T12:00:00.000Z']);
  assert.equal(parseJson(queryFrame(1, { text: 'SELECT $1', parameters: bound, dialect: 'native' }, 1, 1)) instanceof Object, true);
  const saved = parseJson(queryFrame(1, { text: 'only a hint', parameters: [], dialect: 'native', saved: 'slow' }, 1, 1)) as { [name: string]: Json };
  assert.equal(saved.saved, 'slow');
  assert.equal(saved.text, undefined);
});

test('parameters come back from the field in which they are written', () => {
  const bound: fc.Arbitrary<Bound> = fc.oneof(scalar, fc.constant({ variable: 'carrier' }), fc.constantFrom({ time: 'from' as const }, { time: 'to' as const }), fc.constantFrom(':carrier', '@from', 'a\nb', ' a ', ''));
  fc.assert(fc.property(fc.array(bound, { maxLength: 6 }), (given) => assert.deepEqual(readBound(writeBound(given)), given.map((one) => (Object.is(one, -0) ? 0 : one)))));
});

function textIn(blocks: readonly Block[]): string {
  const inline = (pieces: readonly Inline[]): string => pieces.map((piece) => ('text' in piece ? piece.text : inline(piece.of))).join('');
  return blocks.map((block) => (block.is === 'code' ? block.text : block.is === 'list' ? block.items.map(inline).join(' ') : inline(block.of))).join('\n');
}

test('Markdown: headings, paragraphs, lists, bold, italic, code, links', () => {
  const blocks = readMarkdown('# One\ntext **bold _italic_** and `code *x*`\nnext\n\n- a\n- b\n\n1. c\n\n```\n<b>raw\n```\n[web](https://example.com/a_b_c)');
  assert.deepEqual(blocks.map(({ is }) => is), ['heading', 'paragraph', 'list', 'list', 'code', 'paragraph']);
  const paragraph = blocks[1] as Extract<Block, { is: 'paragraph' }>;
  assert.deepEqual(paragraph.of.map(({ is }) => is), ['text', 'bold', 'text', 'code', 'text']);
  const link = (blocks[5] as Extract<Block, { is: 'paragraph' }>).of[0];
  assert.deepEqual(link, { is: 'link', to: 'https://example.com/a_b_c', of: [{ is: 'text', text: 'web' }] });
});

test('Markdown: only http and https are links, and markup is text', () => {
  for (const bad of ['javascript:alert(1)', 'data:text/html,x', '//example.com', 'JaVaScRiPt:x', 'http:', 'https://', 'vbscript:x', ' https://a', 'file:///etc/passwd']) assert.equal(webAddress(bad), null, bad);
  assert.equal(webAddress('HTTPS://example.com'), 'https://example.com/');
  const hostile = readMarkdown('[x](javascript:alert(1)) <img src=x onerror=alert(1)>');
  assert.ok(JSON.stringify(hostile).includes('<img src=x'));
  assert.ok(!JSON.stringify(hostile).includes('"link"'));
});

test('Markdown: any text is read, and words are not lost', () => {
  fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 500 }), (given) => void readMarkdown(given)));
  const word = fc.stringMatching(/^[a-z]{1,8}$/);
  fc.assert(fc.property(fc.array(fc.tuple(fc.constantFrom('', '# ', '- ', '1. ', '**', '*', '`', '[', '](', '```', '\n'), word), { maxLength: 30 }), (pieces) => {
    const read = textIn(readMarkdown(pieces.map(([mark, name]) => `${mark}${name} `).join('')));
    // Words behind a fence's marks on its line are the language, which is not shown.
    if (!pieces.some(([mark]) => mark === '```')) for (const [, name] of pieces) assert.ok(read.includes(name));
  }));
  const began = performance.now();
  for (const evil of ['*'.repeat(65_536), '['.repeat(65_536), '`'.repeat(65_535), '**a'.repeat(20_000), '_a '.repeat(20_000), '[]('.repeat(20_000)]) readMarkdown(evil);
  assert.ok(performance.now() - began < 5000, `hostile text took ${performance.now() - began} ms`);
});

test('answers: rows with a time become a result for each time, in order', () => {
  const at = (minute: number) => `2026-11-30T12:0${minute}:00Z`;
  const rows = answerRows('sql', [{ at: at(1), k: 'a', n: 1 }, { at: at(0), k: 'a', n: 2 }, { at: at(1), k: 'b', n: 3 }]);
  assert.equal(timeColumn(rows), 'at');
  const { parts, form } = partsOf(rows, null);
  assert.equal(form, 'line');
  assert.deepEqual(parts.map(({ records }) => records.length), [1, 2]);
  assert.ok((parts[0]?.at ?? 0) < (parts[1]?.at ?? 0));
  assert.deepEqual(partsOf(rows, 'table').parts.map(({ records }) => records.length), [3]);
  assert.equal(partsOf([{ k: 'a', n: 1 }, { k: 'b', n: 2 }], 'line').form, 'bar');
  assert.deepEqual(answerRows('view', { rows: [{ a: 1 }, 5] }), [{ a: 1 }]);
  const [hit] = answerRows('search', parseJson('{"hits":[{"time":"t","event":{"__proto__":"own","n":1}}]}'));
  assert.deepEqual(Object.keys(hit ?? {}), ['_time', '__proto__', 'n']);
  assert.deepEqual(answerRows('search', 5), []);
});

test('answers: a new answer replaces the earlier one, and single values make a trend', () => {
  let now = 1000;
  const query = new LiveQuery({ text: 'SELECT COUNT(*) AS n FROM t', parameters: [], dialect: 'native' }, () => assert.fail('nothing is sent'), () => 1, () => (now += 1000));
  for (const n of [1, 2, 5]) query.answer(partsOf([{ n }], null).parts, 10);
  const value = compute(query, VIEW, newMemory());
  assert.deepEqual(value.tiles?.[0]?.trend, [1, 2, 5]);
  assert.equal(value.tiles?.[0]?.before, 2);
  query.answer(partsOf([{ k: 'a', n: 1 }, { k: 'b', n: 2 }], null).parts, 30);
  const table = compute(query, VIEW, newMemory());
  assert.equal(table.window?.rows, 2);
  assert.deepEqual(table.columns.map(({ name }) => name), ['k', 'n']);
  query.answer([{ at: null, records: [] }], 2);
  assert.equal(compute(query, VIEW, newMemory()).window?.rows, 0);
});

test('metrics: counters are growth a second by label, and the largest curves are drawn', () => {
  const family = (stream: string, step: number) => ({ name: 'swiftwater_stream_events_total', labels: { stream }, type: 'counter', values: Array.from({ length: 60 }, (_, i) => i * step) });
  const from = Date.UTC(2026, 10, 30, 12);
  const data = { from: new Date(from).toISOString(), interval_ms: 1000, families: Array.from({ length: 20 }, (_, i) => family(`s${i}`, i)) };
  const { lines, left } = metricsPicture(data, ['swiftwater_stream_events_total'], from + 30_000, from + 60_000, 800);
  assert.equal(left, 8);
  assert.equal(lines.series[0]?.name, 'stream=s19');
  assert.ok(lines.x.every((at) => at >= from + 30_000));
  assert.equal(lines.series[0]?.values[3], 19);
  assert.deepEqual(metricsPicture(null, ['x'], 0, 1, 1).lines.series, []);
});

test('a panel survives its way through JSON', () => {
  const panels = (flights as unknown as { panels: Panel[] }).panels;
  assert.deepEqual(parseJson(formatJson(panels as never)), panels);
});
