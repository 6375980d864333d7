/**
 * Colours of a query in the editor: BQL, or Bullet's JSON form where the text begins with `{`.
 *
 * Reads a line at a time; a comment, text or name that goes on in the next line is the state between two lines. The classes are
 * those of style.css.
 */
import { LanguageSupport, StreamLanguage, type StringStream, syntaxHighlighting } from '@codemirror/language';
import { tagHighlighter, tags } from '@lezer/highlight';
import { KEYWORDS } from './bql.ts';

interface State {
  form: 'unknown' | 'bql' | 'json';
  /** The mark that ends what the line is in; empty outside. */
  inside: '' | "'" | '"' | '*/';
}

/** Reads on to the end of what the line is in. */
function rest(stream: StringStream, state: State): string {
  const end = state.inside;
  if (!stream.skipTo(end)) stream.skipToEnd();
  else {
    stream.match(end);
    state.inside = '';
  }
  return end === '*/' ? 'comment' : end === "'" ? 'string' : 'name';
}

function bql(stream: StringStream, state: State): string | null {
  if (state.inside !== '') return rest(stream, state);
  // A carriage return alone ends a comment, too: what follows runs, and must not look as if it did not.
  if (stream.match(/^--[^\r]*/)) return 'comment';
  for (const [begin, end] of [['/*', '*/'], ["'", "'"], ['"', '"']] as const) {
    if (!stream.match(begin)) continue;
    state.inside = end;
    return rest(stream, state);
  }
  if (stream.match(/^(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fL]?/)) return 'number';
  if (stream.match(/^\$\d+/)) return 'parameter';
  const word = stream.match(/^[\p{L}_][\p{L}\p{N}_]*/u) as RegExpMatchArray | null;
  if (word === null) {
    stream.next();
    return null;
  }
  const called = stream.match(/^\s*\(/, false) !== null && stream.match(/^\s*\(/, false) !== false;
  const name = word[0].toUpperCase();
  if (KEYWORDS.has(name) && !(called && (name === 'FIRST' || name === 'LAST' || name === 'MAX'))) return 'keyword';
  return called ? 'call' : null;
}

function json(stream: StringStream): string | null {
  if (stream.match(/^"(?:[^"\\]|\\.)*"?/)) return stream.match(/^\s*:/, false) ? 'name' : 'string';
  if (stream.match(/^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/)) return 'number';
  if (stream.match(/^(?:true|false|null)\b/)) return 'keyword';
  stream.next();
  return null;
}

const language = StreamLanguage.define<State>({
  name: 'bql',
  startState: () => ({ form: 'unknown', inside: '' }),
  copyState: (state) => ({ ...state }),
  token: (stream, state) => {
    if (state.inside === '' && stream.eatSpace()) return null;
    if (state.form === 'unknown') state.form = stream.peek() === '{' ? 'json' : 'bql';
    return state.form === 'json' ? json(stream) : bql(stream, state);
  },
  languageData: {
    commentTokens: { line: '--', block: { open: '/*', close: '*/' } },
    closeBrackets: { brackets: ['(', '[', '{', "'", '"'] },
  },
  tokenTable: {
    keyword: tags.keyword, call: tags.function(tags.variableName), string: tags.string, number: tags.number, comment: tags.comment, name: tags.propertyName,
    parameter: tags.special(tags.variableName),
  },
});

const colours = tagHighlighter([
  { tag: tags.keyword, class: 'tok-keyword' },
  { tag: tags.function(tags.variableName), class: 'tok-call' },
  { tag: tags.string, class: 'tok-string' },
  { tag: tags.number, class: 'tok-number' },
  { tag: tags.comment, class: 'tok-comment' },
  { tag: tags.propertyName, class: 'tok-name' },
  { tag: tags.special(tags.variableName), class: 'tok-parameter' },
]);

export const queryLanguage = new LanguageSupport(language, [syntaxHighlighting(colours)]);
