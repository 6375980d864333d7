/**
 * Example questions for a stream, made from what its recent events contain (`GET /v1/streams/{stream}/paths`).
 *
 * Pure. Every text is valid BQL for any name of a stream, path or value: names are quoted where needed.
 */
import { parseTime } from './format.ts';
import { type Json } from './json.ts';
import { isObject } from './protocol.ts';

export type Scalar = string | number | bigint | boolean;

export interface Path {
  path: string;
  /** Shares of the types: `string`, `number` … */
  types: { [type: string]: number };
  distinct: number;
  /** The share of the events that lack the path or have null there. */
  absent: number;
  /** The number of events that were looked at; 0 if unknown. */
  events: number;
  top: Array<{ value: Scalar; share: number }>;
  /** The shares of the events that have null there, and that lack the path. */
  nulls: number;
  missing: number;
  least: Scalar | null;
  greatest: Scalar | null;
}

export interface Example {
  title: string;
  text: string;
}

function scalar(value: Json | undefined): Scalar | null {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean' ? value : null;
}

/** The paths of the server's answer. */
export function readPaths(data: Json): Path[] {
  if (!isObject(data) || !Array.isArray(data.paths)) return [];
  const paths: Path[] = [];
  const number = (value: Json | undefined) => (typeof value === 'number' ? value : 0);
  const events = number(data.events);
  for (const item of data.paths) {
    if (!isObject(item) || typeof item.path !== 'string') continue;
    const types: { [type: string]: number } = {};
    if (isObject(item.types)) {
      for (const type of Object.keys(item.types)) {
        const share = item.types[type];
        if (typeof share === 'number') types[type] = share;
      }
    }
    const top: Path['top'] = [];
    for (const entry of Array.isArray(item.top) ? item.top : []) {
      if (!isObject(entry)) continue;
      const value = scalar(entry.value);
      if (value !== null) top.push({ value, share: number(entry.share) });
    }
    const [nulls, missing] = [number(item.null), number(item.missing)];
    const [least, greatest] = [scalar(item.least), scalar(item.greatest)];
    paths.push({ path: item.path, types, distinct: number(item.distinct), absent: nulls + missing, events, top, nulls, missing, least, greatest });
  }
  return paths;
}

const KEYWORDS = new Set(
  `select from where group by having order windowing limit stream as and or not xor in is null true false between like rlike any all
   case when then else end cast if lateral view explode outer join left on distinct top freq cumfreq quantile count sum avg min max
   tumbling every session time record event first last interval asc desc max now grouping sets rollup cube sample explain filter
   match_recognize linear region manual with current_date current_timestamp sizeof`.split(/\s+/),
);

const PLAIN = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** A name as BQL reads it back: in double quotes unless it is a plain word. */
export function quoteName(name: string): string {
  return PLAIN.test(name) && !KEYWORDS.has(name.toLowerCase()) ? name : `"${name.replace(/"/g, '""')}"`;
}

/**
 * A path as BQL reads it. One with quotes or brackets is written so already; of another, parts that are no plain words are quoted.
 */
export function quotePath(path: string): string {
  if (/["[]/.test(path)) return path;
  return path
    .split('.')
    .map((part, i) => (i === 0 ? quoteName(part) : PLAIN.test(part) ? `.${part}` : `['${part.replace(/'/g, "''")}']`))
    .join('');
}

export function literal(value: Scalar): string {
  return typeof value === 'string' ? `'${value.replace(/'/g, "''")}'` : String(value).toUpperCase();
}

const share = (path: Path, ...types: string[]) => types.reduce((sum, type) => sum + (path.types[type] ?? 0), 0);
export const isMostlyNumber = (path: Path) => share(path, 'number', 'integer', 'long', 'double', 'float') > 0.5;
const depth = (path: Path) => path.path.split(/\.|\[/).length - 1;
const isNumber = (path: Path) => isMostlyNumber(path) && path.distinct > 2;
/** Nearly each event has another value: an id, a time, a free text. */
const isUnique = (path: Path) => path.events > 50 && path.distinct > 0.6 * path.events * (1 - path.absent);
const isClock = (value: unknown) => parseTime(value) !== null || (typeof value === 'string' && /^(\d{4}-\d\d-\d\d|\d{1,2}:\d\d)/.test(value));
const isCategory = (path: Path) =>
  share(path, 'string', 'boolean') > 0.5 && path.distinct >= 2 && path.distinct <= 2000 && !isUnique(path) && !isClock(path.top[0]?.value);

/** How bad a path is to group by: some groups are best, named near the top of the event, in all events. */
function rank(path: Path): number {
  return Math.abs(Math.log(path.distinct / 12)) + 0.7 * depth(path) + 0.8 * share(path, 'boolean') + 3 * path.absent;
}

const MEASURED = /(delay|latency|duration|elapsed|_ms|ms$|seconds|amount|price|cost|bytes|size|length|percent|rate|value|total|score|temp)/i;
const NAMED = /(^|[._])(id|no|code|lat|lon|lng|year|number|port|pid|ppid|uid)$|id$/i;

/** How bad a number is to average: measured ones have several values and telling names; ids, codes and places are none. */
function numberRank(path: Path): number {
  const name = (NAMED.test(path.path) ? 3 : 0) - (MEASURED.test(path.path) ? 2 : 0);
  const unique = isUnique(path) && path.top.every(({ value }) => Number.isInteger(value)) ? 2 : 0;
  return name + unique + 0.7 * depth(path) + 3 * path.absent - Math.min(2, Math.log10(1 + path.distinct));
}

/** Without paths that say the same as one before them, such as a code beside its name. */
function withoutTwins(paths: Path[]): Path[] {
  const seen = new Set<string>();
  return paths.filter((path) => {
    const key = `${path.distinct}/${(path.top[0]?.share ?? 0).toFixed(3)}/${(path.top[1]?.share ?? 0).toFixed(3)}`;
    const twin = path.top.length > 0 && seen.has(key);
    seen.add(key);
    return !twin;
  });
}

export function exampleQuestions(stream: string, paths: readonly Path[]): Example[] {
  const from = `FROM STREAM(${quoteName(stream)}, MAX, TIME)`;
  const second = 'WINDOWING TUMBLING(1000, TIME)';
  const categories = withoutTwins(paths.filter(isCategory).sort((a, b) => rank(a) - rank(b)));
  const numbers = paths.filter(isNumber).sort((a, b) => numberRank(a) - numberRank(b));
  const [first, other] = categories;
  const number = numbers[0];
  const examples: Example[] = [];
  const shown = (path: Path) => path.path.replace(/"/g, '');
  if (first !== undefined) {
    const key = quotePath(first.path);
    examples.push({ title: `Events a second by ${shown(first)}`, text: `SELECT ${key}, COUNT(*) AS n\n${from}\nGROUP BY ${key}\n${second}` });
  }
  if (number !== undefined) {
    const x = quotePath(number.path);
    examples.push({
      title: `Average and 95th percentile of ${shown(number)}`,
      text: `SELECT COUNT(*) AS n, AVG(${x}) AS average, APPROX_PERCENTILE_CONT(${x}, 0.95) AS p95\n${from}\n${second}`,
    });
    examples.push({ title: `Distribution of ${shown(number)}`, text: `SELECT FREQ(${x}, LINEAR, 12)\n${from}\n${second}` });
  }
  if (first !== undefined && other !== undefined) {
    const [a, b] = [quotePath(first.path), quotePath(other.path)];
    examples.push({
      title: `${shown(first)} by ${shown(other)}`,
      text: `SELECT ${a}, ${b}, COUNT(*) AS n\n${from}\nGROUP BY ${a}, ${b}\nWINDOWING TUMBLING(5000, TIME)`,
    });
  }
  const many = [...categories].sort((a, b) => b.distinct - a.distinct)[0];
  if (many !== undefined) {
    examples.push({ title: `Top 10 of ${shown(many)}`, text: `SELECT TOP(10, ${quotePath(many.path)})\n${from}\nWINDOWING TUMBLING(5000, TIME)` });
  }
  const value = first?.top[0]?.value;
  if (first !== undefined && value !== undefined && String(value).length <= 80) {
    examples.push({
      title: `Events with ${shown(first)} = ${String(value)}`,
      text: `SELECT *\n${from}\nWHERE ${quotePath(first.path)} = ${literal(value)}`,
    });
  } else {
    examples.push({ title: 'All events as they come', text: `SELECT *\n${from}` });
  }
  if (first === undefined) examples.push({ title: 'Events a second', text: `SELECT COUNT(*) AS n\n${from}\n${second}` });
  return examples;
}
