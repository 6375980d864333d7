/**
 * Places in a text: the server counts characters (code points), the browser counts UTF-16 units.
 *
 * Pure. Lines end with a line feed and are counted from 1, as are columns. A lone surrogate counts as one character.
 */

/** The length in units of the character at `at`. */
function unitsAt(text: string, at: number): number {
  return (text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
}

/** The number of characters before the unit `offset`. */
export function charactersBefore(text: string, offset: number): number {
  const end = Math.min(offset, text.length);
  let count = 0;
  for (let at = 0; at < end; at += unitsAt(text, at)) count += 1;
  return count;
}

/** The offset in units behind the first `characters` characters from `from` on; at most the text's length. */
export function offsetAfter(text: string, characters: number, from = 0): number {
  let at = from;
  for (let left = characters; left > 0 && at < text.length; left -= 1) at += unitsAt(text, at);
  return at;
}

/** The offset in units of a line and a column. A place behind its line is the line's end; one behind the text is the text's end. */
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let left = line; left > 1; left -= 1) {
    const end = text.indexOf('\n', start);
    if (end < 0) return text.length;
    start = end + 1;
  }
  const end = text.indexOf('\n', start);
  return Math.min(offsetAfter(text, column - 1, start), end < 0 ? text.length : end);
}

const WORD = /[\p{L}\p{N}_]+/uy;

/** Where what stands at `from` ends: a word, or one character; `from` itself at the end of a line. */
export function endOfToken(text: string, from: number): number {
  if (from >= text.length || text[from] === '\n') return from;
  WORD.lastIndex = from;
  return WORD.test(text) ? WORD.lastIndex : from + unitsAt(text, from);
}

export interface Placed {
  line?: number;
  column?: number;
  text: string;
}

/** A warning whose text begins with `line:column: `. */
export function readPlace(warning: string): Placed {
  const found = /^(\d{1,9}):(\d{1,9}): /.exec(warning);
  if (found === null) return { text: warning };
  return { line: Number(found[1]), column: Number(found[2]), text: warning.slice(found[0].length) };
}
