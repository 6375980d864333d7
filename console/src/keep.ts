/**
 * Live queries as the queries of views, alerts and sinks, which have no end: what must be left out of the text, and why a query
 * cannot become one.
 *
 * Pure. A part is left out only where its place is certain; the server validates the statement in any case. The rules are those of
 * `docs/reference/views.md` and `docs/reference/sinks.md`.
 */
import { type Token, isJsonForm, significant, streamOf } from './bql.ts';
import { type Scalar, literal } from './examples.ts';
import type { Question } from './protocol.ts';

export type Kept = { query: string; leftOut: string[] } | { why: string };

/** Whether a stream is stored; undefined: the page does not know it. */
export type IsStored = (stream: string) => boolean | undefined;

const AGGREGATES = new Set(
  'COUNT SUM AVG MIN MAX APPROX_DISTINCT APPROX_PERCENTILE_CONT APPROX_MEDIAN QUANTILE FREQ CUMFREQ TOP FIRST LAST ARG_MIN ARG_MAX MIN_BY MAX_BY COLLECT_LIST ARRAY_AGG COLLECT_SET'.split(' '),
);
const CLAUSES = ['FROM', 'WHERE', 'GROUP', 'HAVING', 'ORDER', 'WINDOWING', 'LIMIT'] as const;
type Clause = (typeof CLAUSES)[number];

interface Outline {
  text: string;
  tokens: Token[];
  /** A token as written, words in capitals; a word behind a dot is a part of a path and no keyword. */
  words: string[];
  /** The indexes of the tokens of each clause: [first, end). */
  clauses: Map<Clause, [number, number]>;
}

/** The clauses of a query, or why they cannot be found. */
function outline(text: string): Outline | { why: string } {
  const all = significant(text);
  while (all.length > 0 && text[(all[all.length - 1] as Token).from] === ';') all.pop();
  if (all.some(({ kind }) => kind === 'unclosed')) return { why: 'A quote or a comment of the query has no end.' };
  const words = all.map((token, i) => {
    const own = text.slice(token.from, token.to);
    const before = all[i - 1];
    const isPart = before !== undefined && text.slice(before.from, before.to) === '.';
    return token.kind === 'word' ? (isPart ? '' : own.toUpperCase()) : token.kind === 'symbol' ? own : '';
  });
  if (words[0] === 'EXPLAIN') return { why: 'EXPLAIN shows a plan, which has no rows to keep.' };
  if (words[0] !== 'SELECT') return { why: 'The text is no SELECT.' };
  const clauses = new Map<Clause, [number, number]>();
  let depth = 0;
  let open: Clause | null = null;
  for (let i = 0; i < words.length; i += 1) {
    const word = words[i] as string;
    if (word === '(' || word === '[' || word === '{') depth += 1;
    else if (word === ')' || word === ']' || word === '}') depth -= 1;
    if (depth < 0 || word === ';') return { why: 'The page is not sure where the clauses of the query are.' };
    const name = CLAUSES.find((clause) => clause === word);
    if (depth > 0 || name === undefined || !beginsClause(words, all, i, name)) continue;
    if (clauses.has(name)) return { why: 'The page is not sure where the clauses of the query are.' };
    const before = open === null ? undefined : clauses.get(open);
    if (before !== undefined) before[1] = i;
    clauses.set(name, [i, words.length]);
    open = name;
  }
  if (depth !== 0 || !clauses.has('FROM')) return { why: 'The page is not sure where the clauses of the query are.' };
  return { text, tokens: all, words, clauses };
}

/** Some of these words are valid names as well. */
function beginsClause(words: readonly string[], tokens: readonly Token[], index: number, name: Clause): boolean {
  const next = words[index + 1];
  if (name === 'GROUP' || name === 'ORDER') return next === 'BY';
  if (name === 'WINDOWING') return words[index + 2] === '(';
  if (name === 'LIMIT') return tokens[index + 1]?.kind === 'number' || tokens[index + 1]?.kind === 'parameter';
  return true;
}

interface Edit {
  from: number;
  to: number;
  text: string;
}

const applied = (text: string, edits: readonly Edit[]): string =>
  [...edits].sort((a, b) => b.from - a.from).reduce((before, { from, to, text: put }) => before.slice(0, from) + put + before.slice(to), text);

function without(found: Outline, clause: Clause): Edit[] {
  const range = found.clauses.get(clause);
  if (range === undefined) return [];
  const [before, last] = [found.tokens[range[0] - 1] as Token, found.tokens[range[1] - 1] as Token];
  return [{ from: before.to, to: last.to, text: '' }];
}

/** `STREAM(s, MAX, TIME)` without its duration; `ends`: the duration was a time. */
function withoutDuration({ text, tokens, words, clauses }: Outline): { edits: Edit[]; ends: boolean } {
  const from = clauses.get('FROM')?.[0] ?? 0;
  const [at, open] = [from + 1, from + 2];
  if (words[at] !== 'STREAM' || words[open] !== '(') return { edits: [], ends: false };
  const close = words.indexOf(')', open);
  const first = tokens[open + 1];
  // `STREAM(5000, TIME)` has a duration and no name.
  const named = first !== undefined && (first.kind === 'name' || first.kind === 'word');
  const begin = tokens[named ? open + 1 : open];
  const end = tokens[close];
  if (begin === undefined || end === undefined || begin.to === end.from) return { edits: [], ends: false };
  const duration = words[open + (named ? 3 : 1)];
  return { edits: [{ from: begin.to, to: end.from, text: '' }], ends: duration !== 'MAX' && text.slice(begin.to, end.from).trim() !== '' };
}

/** The values of `$1`, `$2` as literals: a statement that is kept has no parameters. */
function bound({ text, tokens }: Outline, parameters: Question['parameters']): Edit[] | { why: string } {
  const edits: Edit[] = [];
  for (const token of tokens) {
    if (token.kind !== 'parameter') continue;
    const value = parameters[Number(text.slice(token.from + 1, token.to)) - 1];
    if (value === undefined) return { why: `The query has no value for ${text.slice(token.from, token.to)}.` };
    const written = value === null ? 'NULL' : literal(value as Scalar);
    // `a -$1` with a negative value would begin a comment.
    edits.push({ from: token.from, to: token.to, text: written.startsWith('-') ? `(${written})` : written });
  }
  return edits;
}

const count = (words: readonly string[], name: string, next: string): number => words.filter((word, i) => word === name && words[i + 1] === next).length;
const aggregates = ({ words, clauses }: Outline): boolean => words.slice(0, clauses.get('FROM')?.[0]).some((word, i) => AGGREGATES.has(word) && words[i + 1] === '(');

/** Reasons that views and sinks share. */
function refusal(question: Question, isStored: IsStored, object: string): string | null {
  if (isJsonForm(question.text)) return `${object} needs a query in BQL, and this one is in Bullet's JSON form.`;
  if (question.dialect === 'bullet') return `${object} follows the rules of BQL, and this query ran by Bullet's rules.`;
  const stream = streamOf(question.text);
  if (typeof stream === 'string' && isStored(stream) === false) return `${object} needs a stored stream, and this one is live-only.`;
  return null;
}

/** What no kept query has: its end, its order, its parameters. */
function withoutEnd(found: Outline, parameters: Question['parameters'], edits: Edit[], leftOut: string[]): Kept {
  const values = bound(found, parameters);
  if ('why' in values) return values;
  const duration = withoutDuration(found);
  if (duration.ends) leftOut.push('the duration');
  for (const [clause, name] of [['ORDER', 'ORDER BY'], ['LIMIT', 'LIMIT']] as const) if (found.clauses.has(clause)) leftOut.push(name);
  const cuts = [...edits, ...duration.edits, ...without(found, 'ORDER'), ...without(found, 'LIMIT')];
  const isCut = ({ from }: Edit) => cuts.some((cut) => cut.from <= from && from < cut.to);
  const end = found.tokens[found.tokens.length - 1]?.to ?? 0;
  const query = applied(found.text.slice(0, end), [...cuts, ...values.filter((edit) => !isCut(edit))]);
  return { query: query.trim(), leftOut };
}

/** The query of a view, or of an alert's private one. */
export function viewQuery(question: Question, isStored: IsStored): Kept {
  const why = refusal(question, isStored, 'A view');
  if (why !== null) return { why };
  const found = outline(question.text);
  if ('why' in found) return found;
  const { words, clauses } = found;
  if (words.includes('MATCH_RECOGNIZE')) return { why: 'A view of MATCH_RECOGNIZE is not supported.' };
  if (words[(clauses.get('FROM')?.[0] ?? 0) + 1] === '(') return { why: 'A view is one query over a stream: keep the inner query, and read the view by the outer one.' };
  if (count(words, 'STREAM', '(') > 1) return { why: 'A view reads one stream: create a join of the two, and a view of its pairs.' };
  if (!clauses.has('GROUP') && words[1] !== 'DISTINCT' && !aggregates(found)) return { why: 'A view has one row a key: the query needs GROUP BY or aggregates.' };
  const edits: Edit[] = [];
  const leftOut: string[] = [];
  const window = clauses.get('WINDOWING');
  if (window !== undefined) {
    const inside = words.slice(window[0], window[1]);
    if (inside[1] === 'SESSION') return { why: 'A view has no SESSION windows: use TUMBLING or EVERY by time.' };
    if (inside.includes('RECORD')) return { why: 'A view has windows by time, not by RECORD.' };
    // A window of all events so far has the rows of a view without windows.
    if (inside[1] === 'EVERY' && inside.includes('ALL')) {
      edits.push(...without(found, 'WINDOWING'));
      leftOut.push('WINDOWING');
    }
  }
  return withoutEnd(found, question.parameters, edits, leftOut);
}

/** The query of a sink that delivers a row for each event. */
export function sinkQuery(question: Question, isStored: IsStored): Kept {
  const why = refusal(question, isStored, 'A sink of events');
  if (why !== null) return { why };
  const found = outline(question.text);
  if ('why' in found) return found;
  const { words, clauses } = found;
  const grouped = clauses.has('GROUP') || clauses.has('HAVING') || clauses.has('WINDOWING') || words[1] === 'DISTINCT' || words.includes('MATCH_RECOGNIZE') || aggregates(found);
  if (grouped) return { why: 'A sink of a query has a row for each event, and this query groups events: keep it as a view, and create a sink of the view.' };
  if (words[(clauses.get('FROM')?.[0] ?? 0) + 1] === '(') return { why: 'A sink has no query over a query.' };
  const from = words.slice(clauses.get('FROM')?.[0] ?? 0);
  if (from.includes('JOIN') || from.includes('LATERAL') || from.includes('SAMPLE')) return { why: 'A sink of events has no JOIN, LATERAL VIEW or SAMPLE.' };
  return withoutEnd(found, question.parameters, [], []);
}
