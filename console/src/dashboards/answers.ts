/**
 * Answers that are asked again and again (SQL, rows of a view, a search) as results that charts can show. Pure.
 *
 * Rows with a time and a number become a result for each time, so curves are drawn over that time. All other answers are one result.
 */
import { parseTime } from '../format.ts';
import type { Form } from '../fragment.ts';
import type { Json } from '../json.ts';
import type { Row } from '../live_query.ts';
import { isObject } from '../protocol.ts';

export type AnswerOf = 'sql' | 'view' | 'search';

const SAMPLE = 50;
const OVER_TIME: ReadonlySet<Form> = new Set(['line', 'area', 'stacked']);

/** The rows of an answer. A hit of a search is its event, with its time first. */
export function answerRows(of: AnswerOf, data: Json): Row[] {
  const list = of === 'sql' ? data : isObject(data) ? (of === 'view' ? data.rows : data.hits) : null;
  const rows = Array.isArray(list) ? list.filter((row): row is Row => isObject(row)) : [];
  if (of !== 'search') return rows;
  return rows.map((hit) => {
    const row: Row = { _time: hit.time ?? null };
    for (const [name, value] of isObject(hit.event) ? Object.entries(hit.event) : []) {
      Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true });
    }
    return row;
  });
}

/** True if the server has more rows than it was asked for. */
export function hasMore(of: AnswerOf, data: Json): boolean {
  if (of === 'sql' || !isObject(data)) return false;
  const next = of === 'view' ? data.next : data.cursor;
  return next !== null && next !== undefined;
}

/** The first column whose values are times in all of the first rows; null if there is none. */
export function timeColumn(rows: readonly Row[]): string | null {
  const sample = rows.slice(0, SAMPLE);
  const names = Object.keys(sample[0] ?? {});
  return names.find((name) => sample.every((row) => Object.hasOwn(row, name) && parseTime(row[name]) !== null)) ?? null;
}

const isNumber = (value: Json | undefined): boolean => typeof value === 'number' || typeof value === 'bigint';

/** True if rows suit curves by themselves: several times, a number, and no more than one key. */
function suitsCurves(rows: readonly Row[], time: string): boolean {
  const others = Object.entries(rows[0] ?? {}).filter(([name]) => name !== time);
  const keys = others.filter(([, value]) => typeof value === 'string' || typeof value === 'boolean').length;
  return others.some(([, value]) => isNumber(value)) && keys <= 1 && others.every(([, value]) => value === null || typeof value !== 'object');
}

export interface Part {
  /** Milliseconds since 1970; null: the part is the whole answer. */
  at: number | null;
  records: Row[];
}

/** The parts of an answer, and the form that it takes where the reader chose none. */
export function partsOf(rows: readonly Row[], form: Form | null): { parts: Part[]; form: Form | null } {
  const time = rows.length > 1 ? timeColumn(rows) : null;
  const curves = time !== null && (form === null ? suitsCurves(rows, time) : OVER_TIME.has(form));
  if (!curves) return { parts: [{ at: null, records: [...rows] }], form: form !== null && OVER_TIME.has(form) && rows.length > 1 ? 'bar' : form };
  const byTime = new Map<number, Row[]>();
  for (const row of rows) {
    const at = parseTime(row[time]);
    if (at === null) continue;
    const records = byTime.get(at);
    if (records === undefined) byTime.set(at, [row]);
    else records.push(row);
  }
  const parts = [...byTime].sort(([a], [b]) => a - b).map(([at, records]) => ({ at, records }));
  return { parts, form: form ?? 'line' };
}
