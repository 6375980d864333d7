/**
 * Changes to a query's text that a click makes: one more condition, and new questions about a field.
 *
 * Pure. `addCondition` changes a text only if it is sure about the place: one SELECT, balanced brackets, each clause once and in
 * order, no join, pattern or LATERAL VIEW, which may give names another meaning. Otherwise it returns null.
 */
import { type Token, isJsonForm, significant } from './bql.ts';
import { type Path, type Scalar, isMostlyNumber, literal, quoteName, quotePath } from './examples.ts';

/** The clauses behind FROM, in their order. */
const CLAUSES = ['WHERE', 'GROUP', 'HAVING', 'ORDER', 'WINDOWING', 'LIMIT'] as const;
const UNSURE = new Set(['JOIN', 'LATERAL', 'MATCH_RECOGNIZE', 'UNION', 'INTERSECT', 'EXCEPT', 'WITH']);
const TEXT_MAX = 100_000;

export function conditionOf(path: string, value: Scalar): string {
  return `${quotePath(path)} = ${literal(value)}`;
}

/** `text` with `condition` as one more condition on its events; null if it is not sure where that goes. */
export function addCondition(text: string, condition: string): string | null {
  if (text.length > TEXT_MAX || isJsonForm(text)) return null;
  const tokens = significant(text);
  const word = (index: number) => {
    const token = tokens[index];
    // A word behind a dot is a part of a path.
    const part = index > 0 && tokens[index - 1]?.kind === 'symbol' && text[(tokens[index - 1] as Token).from] === '.';
    return token?.kind === 'word' && !part ? text.slice(token.from, token.to).toUpperCase() : '';
  };
  if (word(0) !== 'SELECT' && !(word(0) === 'EXPLAIN' && (word(1) === 'SELECT' || (word(1) === 'ANALYZE' && word(2) === 'SELECT')))) return null;

  const starts = new Map<string, number>();
  const brackets: string[] = [];
  let selects = 0;
  let from = -1;
  let disjunction = false;
  for (let i = 0; i < tokens.length; i += 1) {
    const token = tokens[i] as Token;
    const own = text.slice(token.from, token.to);
    if (token.kind === 'unclosed' || own === ';') return null;
    if (token.kind === 'symbol') {
      if ('([{'.includes(own)) brackets.push(own);
      else if (')]}'.includes(own) && brackets.pop() !== '([{'[')]}'.indexOf(own)]) return null;
      continue;
    }
    const name = word(i);
    if (name === 'SELECT') selects += 1;
    if (UNSURE.has(name)) return null;
    if (brackets.length > 0 || name === '') continue;
    if (name === 'FROM') {
      if (from >= 0) return null;
      from = i;
      continue;
    }
    const inWhere = starts.has('WHERE') && starts.size === 1;
    if (inWhere && (name === 'OR' || name === 'XOR' || name === 'CASE')) disjunction = true;
    if (from < 0 || !beginsClause(text, tokens, i, name)) continue;
    const last = [...starts.keys()].pop();
    if (last !== undefined && CLAUSES.indexOf(last as 'WHERE') >= CLAUSES.indexOf(name as 'WHERE')) return null;
    starts.set(name, i);
  }
  if (selects !== 1 || from < 0 || brackets.length > 0) return null;

  const where = starts.get('WHERE');
  const next = [...starts.entries()].find(([name]) => name !== 'WHERE')?.[1] ?? tokens.length;
  const last = tokens[next - 1] as Token;
  if (where === undefined) {
    if (next - 1 <= from) return null;
    return `${text.slice(0, last.to)}${text.includes('\n') ? '\n' : ' '}WHERE ${condition}${spaced(text.slice(last.to))}`;
  }
  const first = tokens[where + 1];
  if (first === undefined || where + 1 >= next) return null;
  const held = text.slice(first.from, last.to);
  const all = disjunction ? `(${held})` : held;
  return `${text.slice(0, first.from)}${all} AND ${condition}${spaced(text.slice(last.to))}`;
}

/** What follows an inserted text must not join its last word. */
const spaced = (rest: string) => (rest === '' || /^\s/.test(rest) ? rest : ` ${rest}`);

/** Whether the word begins its clause: some of these words are also valid names. */
function beginsClause(text: string, tokens: readonly Token[], index: number, name: string): boolean {
  if (!(CLAUSES as readonly string[]).includes(name)) return false;
  const next = tokens[index + 1];
  const own = next === undefined ? '' : text.slice(next.from, next.to).toUpperCase();
  if (name === 'GROUP' || name === 'ORDER') return own === 'BY';
  const second = tokens[index + 2];
  if (name === 'WINDOWING') return next?.kind === 'word' && second !== undefined && text[second.from] === '(';
  if (name === 'LIMIT') return next?.kind === 'number' || next?.kind === 'parameter';
  return true;
}

const from = (stream: string) => `FROM STREAM(${quoteName(stream)}, MAX, TIME)`;

/** A new question: the events that have this value. */
export function eventsWith(stream: string, condition: string): string {
  return `SELECT *\n${from(stream)}\nWHERE ${condition}`;
}

/** A new question: the number of events of each value, each second. */
export function countBy(stream: string, path: string): string {
  const key = quotePath(path);
  return `SELECT ${key}, COUNT(*) AS n\n${from(stream)}\nGROUP BY ${key}\nWINDOWING TUMBLING(1000, TIME)`;
}

/** A new question with a chart of the field: the distribution of a number, the ten most frequent values of anything else. */
export function chartOf(stream: string, path: Path): string {
  const x = quotePath(path.path);
  if (!isMostlyNumber(path)) return `SELECT TOP(10, ${x})\n${from(stream)}\nWINDOWING TUMBLING(5000, TIME)`;
  return `SELECT FREQ(${x}, LINEAR, 12)\n${from(stream)}\nWINDOWING TUMBLING(1000, TIME)`;
}

/** A new question: the average of a number, each second. */
export function averageOf(stream: string, path: string): string {
  const x = quotePath(path);
  return `SELECT AVG(${x}) AS average, MIN(${x}) AS least, MAX(${x}) AS greatest\n${from(stream)}\nWINDOWING TUMBLING(1000, TIME)`;
}
