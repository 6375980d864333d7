/**
 * The changes of a view, as `GET /v1/views/{view}/changes` reports them line by line (NDJSON). Pure.
 *
 * Remembers the last row of each key, so that a change knows which cells differ. Bounded: `changesMax` changes, `keysMax` keys; of
 * a key that is forgotten, the next change has no cells to compare.
 */
import { type Json, formatJson, parseJson } from './json.ts';
import { isObject } from './protocol.ts';

type Row = { [column: string]: Json };

export interface Change {
  /** Rises with each change. */
  number: number;
  /** The key as JSON text. */
  key: string;
  /** Null: the key has no row any more. */
  row: Row | null;
  /** The columns whose values differ from the last row; null if that is not known. */
  changed: readonly string[] | null;
  at: number;
}

export class ChangeFeed {
  /** Newest first. */
  readonly changes: Change[] = [];
  /** The position from which on a feed goes on; null before the first. */
  position: number | null = null;
  count = 0;
  private readonly rows = new Map<string, Row>();

  constructor(
    private readonly changesMax = 100,
    private readonly keysMax = 10_000,
  ) {}

  /** Takes in a line. Throws a `SyntaxError` if it is no JSON. */
  line(text: string, at: number): void {
    const data = parseJson(text);
    if (!isObject(data)) return;
    if (typeof data.position === 'number') this.position = data.position;
    if (data.key === undefined) return;
    const key = formatJson(data.key);
    const before = this.rows.get(key);
    const row = isObject(data.row) ? data.row : null;
    this.count += 1;
    this.changes.unshift({ number: this.count, key, row, changed: row === null || before === undefined ? null : differences(before, row), at });
    if (this.changes.length > this.changesMax) this.changes.pop();
    this.rows.delete(key);
    if (row === null) return;
    this.rows.set(key, row);
    if (this.rows.size > this.keysMax) {
      const [oldest] = this.rows.keys();
      if (oldest !== undefined) this.rows.delete(oldest);
    }
  }
}

/** The columns in which two rows differ. */
export function differences(a: Row, b: Row): string[] {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].filter((name) => {
    const [one, other] = [own(a, name), own(b, name)];
    if (one === undefined || other === undefined) return one !== other;
    return one !== other && formatJson(one) !== formatJson(other);
  });
}

const own = (row: Row, name: string): Json | undefined => (Object.hasOwn(row, name) ? row[name] : undefined);

/** The columns of rows, in the order in which they first appear. */
export function columnsOf(rows: ReadonlyArray<Row | null>, most = 200): string[] {
  const names = new Set<string>();
  for (const row of rows) {
    for (const name of Object.keys(row ?? {})) if (names.size < most) names.add(name);
  }
  return [...names];
}
