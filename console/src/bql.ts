/**
 * The tokens of a query's text, and what the page reads from them without the server.
 *
 * Pure. The grammar is that of the server's lexer: names in double quotes, texts in single quotes, comments from `--` to the end of
 * the line and between the marks of C. Limits: `READ_MAX` characters are read for the stream and for the call at the cursor.
 */

export type TokenKind = 'space' | 'comment' | 'word' | 'string' | 'name' | 'parameter' | 'number' | 'symbol' | 'unclosed';

export interface Token {
  kind: TokenKind;
  from: number;
  to: number;
}

export const READ_MAX = 20_000;

const KINDS: readonly TokenKind[] = ['space', 'comment', 'word', 'string', 'name', 'parameter', 'number', 'unclosed', 'symbol'];
const TOKEN =
  /([\s\ufeff]+)|(--[^\n\r]*|\/\*[\s\S]*?\*\/)|([\p{L}_][\p{L}\p{N}_]*)|('[^']*'(?:'[^']*')*)|("[^"]*"(?:"[^"]*")*)|(\$\d+)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fL]?)|(['"][\s\S]*|\/\*[\s\S]*)|([\s\S])/uy;

/** All tokens of `text`, without holes between them. */
export function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  TOKEN.lastIndex = 0;
  for (let from = 0; from < text.length; from = TOKEN.lastIndex) {
    const found = TOKEN.exec(text);
    if (found === null) break;
    const kind = KINDS[found.findIndex((group, i) => i > 0 && group !== undefined) - 1] ?? 'symbol';
    tokens.push({ kind, from, to: TOKEN.lastIndex });
  }
  return tokens;
}

/** The tokens that mean something: all but spaces and comments. */
export function significant(text: string): Token[] {
  return tokensOf(text).filter(({ kind }) => kind !== 'space' && kind !== 'comment');
}

/** The name that a word or a quoted name stands for. */
export function nameOf(text: string, token: Token): string {
  const own = text.slice(token.from, token.to);
  return token.kind === 'name' ? own.slice(1, -1).replace(/""/g, '"') : own;
}

/** The stream of `FROM STREAM(name, …)`; null for `STREAM()`; undefined where the text names none. */
export function streamOf(text: string): string | null | undefined {
  if (isJsonForm(text)) return undefined;
  const begin = text.slice(0, READ_MAX);
  const tokens = significant(begin);
  const is = (index: number, word: string) => {
    const token = tokens[index];
    return token !== undefined && token.kind !== 'string' && begin.slice(token.from, token.to).toUpperCase() === word;
  };
  for (let i = 0; i < tokens.length; i += 1) {
    if (!is(i, 'FROM') || !is(i + 1, 'STREAM') || !is(i + 2, '(')) continue;
    const name = tokens[i + 3];
    if (is(i + 3, ')')) return null;
    if (name === undefined || (name.kind !== 'word' && name.kind !== 'name')) return undefined;
    return is(i + 4, ')') || is(i + 4, ',') ? nameOf(begin, name) : undefined;
  }
  return undefined;
}

/** Whether the text is Bullet's JSON form. */
export function isJsonForm(text: string): boolean {
  return /^[\s\ufeff]*\{/.test(text);
}

/** The name of the function at `at`, or of the innermost call that `at` is in, in capitals; null if there is none. */
export function callAround(text: string, at: number): string | null {
  if (at > READ_MAX || isJsonForm(text)) return null;
  const begin = text.slice(0, at + 200);
  const tokens = significant(begin);
  const open: Array<string | null> = [];
  for (let i = 0; i < tokens.length; i += 1) {
    const token = tokens[i] as Token;
    const own = begin.slice(token.from, token.to);
    const next = tokens[i + 1];
    const called = token.kind === 'word' && next !== undefined && begin[next.from] === '(';
    if (called && token.from <= at && at <= token.to) return own.toUpperCase();
    if (token.from >= at) break;
    if (token.kind !== 'symbol') continue;
    const before = tokens[i - 1];
    if (own === '(') open.push(before?.kind === 'word' ? begin.slice(before.from, before.to).toUpperCase() : null);
    else if (own === ')') open.pop();
  }
  return open.reverse().find((name) => name !== null) ?? null;
}

/** Words that are shown as keywords. Names of functions are known by the `(` behind them. */
export const KEYWORDS: ReadonlySet<string> = new Set(
  `SELECT DISTINCT FROM WHERE GROUP BY HAVING ORDER AS AND OR XOR NOT IN IS NULL TRUE FALSE BETWEEN RLIKE LIKE ANY ALL LATERAL VIEW OUTER
   CASE WHEN THEN ELSE END ASC DESC LIMIT STREAM TIME RECORD EVENT WINDOWING EVERY TUMBLING SESSION LINEAR REGION MANUAL NOW EXPLAIN
   ANALYZE SAMPLE INTERVAL JOIN LEFT INNER ON GROUPING SETS ROLLUP CUBE MATCH_RECOGNIZE PARTITION PATTERN DEFINE MEASURES WITHIN FIRST
   LAST MAX`.split(/\s+/),
);
