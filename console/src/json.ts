/**
 * JSON text to values and back, without a loss in whole numbers.
 *
 * A whole number beyond 2^53 becomes a `bigint` with exactly its digits; everything else is what `JSON.parse` makes of it.
 * Text without such a number is parsed by `JSON.parse` itself. Only the other text takes the parser below, which accepts
 * the same grammar (RFC 8259) and keeps names such as `__proto__` as own properties. Nesting is limited by `DEPTH_MAX`.
 */

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

/** The deepest nesting that `parseJson` accepts in text with whole numbers beyond 2^53. */
export const DEPTH_MAX = 2000;

/** Finds text that may contain a whole number of 16 digits or more; a hit inside of a string only costs time. */
const LONG_INTEGER = /(?:^|[\s:,[])-?[0-9]{16,}(?=[\s,\]}]|$)/;

/** The value of `text`. Throws a `SyntaxError` where `JSON.parse` does. */
export function parseJson(text: string): Json {
  if (!LONG_INTEGER.test(text)) return JSON.parse(text) as Json;
  const parser = new Parser(text);
  return parser.document();
}

class Parser {
  private at = 0;
  private depth = 0;

  constructor(private readonly text: string) {}

  document(): Json {
    const value = this.value();
    this.space();
    if (this.at < this.text.length) this.fail();
    return value;
  }

  private fail(): never {
    throw new SyntaxError(`unexpected character in JSON at position ${this.at}`);
  }

  private space(): void {
    for (;;) {
      const code = this.text.charCodeAt(this.at);
      if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return;
      this.at += 1;
    }
  }

  private value(): Json {
    this.space();
    switch (this.text[this.at]) {
      case '{':
        return this.object();
      case '[':
        return this.list();
      case '"':
        return this.string();
      case 't':
        return this.word('true', true);
      case 'f':
        return this.word('false', false);
      case 'n':
        return this.word('null', null);
      default:
        return this.number();
    }
  }

  private word<T>(word: string, value: T): T {
    if (!this.text.startsWith(word, this.at)) this.fail();
    this.at += word.length;
    return value;
  }

  private enter(): void {
    this.at += 1;
    this.depth += 1;
    if (this.depth > DEPTH_MAX) throw new SyntaxError(`JSON is nested deeper than ${DEPTH_MAX} levels`);
    this.space();
  }

  private object(): Json {
    const object: { [name: string]: Json } = {};
    this.enter();
    if (this.text[this.at] !== '}') {
      for (;;) {
        if (this.text[this.at] !== '"') this.fail();
        const name = this.string();
        this.space();
        if (this.text[this.at] !== ':') this.fail();
        this.at += 1;
        const value = this.value();
        if (name === '__proto__') {
          Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
        } else {
          object[name] = value;
        }
        this.space();
        if (this.text[this.at] !== ',') break;
        this.at += 1;
        this.space();
      }
      if (this.text[this.at] !== '}') this.fail();
    }
    this.at += 1;
    this.depth -= 1;
    return object;
  }

  private list(): Json {
    const list: Json[] = [];
    this.enter();
    if (this.text[this.at] !== ']') {
      for (;;) {
        list.push(this.value());
        this.space();
        if (this.text[this.at] !== ',') break;
        this.at += 1;
      }
      if (this.text[this.at] !== ']') this.fail();
    }
    this.at += 1;
    this.depth -= 1;
    return list;
  }

  private string(): string {
    const from = this.at;
    let at = from + 1;
    for (;;) {
      const code = this.text.charCodeAt(at);
      if (code === 0x22) break;
      if (!(code >= 0x20)) {
        this.at = at;
        this.fail();
      }
      at += code === 0x5c ? 2 : 1;
    }
    this.at = at + 1;
    return JSON.parse(this.text.slice(from, this.at)) as string;
  }

  private number(): number | bigint {
    const pattern = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match === null) this.fail();
    this.at = pattern.lastIndex;
    const number = Number(match[0]);
    const whole = match[1] === undefined && match[2] === undefined;
    return whole && !Number.isSafeInteger(number) ? BigInt(match[0]) : number;
  }
}

/** JSON text of `value`; `indent` as of `JSON.stringify`. A `bigint` is written by its digits. */
export function formatJson(value: Json, indent = 0): string {
  const parts: string[] = [];
  write(value, indent, '\n', parts);
  return parts.join('');
}

function write(value: Json, indent: number, line: string, parts: string[]): void {
  if (typeof value === 'bigint') {
    parts.push(value.toString());
    return;
  }
  if (value === null || typeof value !== 'object') {
    parts.push(JSON.stringify(value) ?? 'null');
    return;
  }
  const inner = indent > 0 ? line + ' '.repeat(indent) : '';
  const list = Array.isArray(value);
  const names = list ? [] : Object.keys(value);
  const count = list ? value.length : names.length;
  if (count === 0) {
    parts.push(list ? '[]' : '{}');
    return;
  }
  parts.push(list ? '[' : '{');
  for (let i = 0; i < count; i += 1) {
    if (i > 0) parts.push(',');
    parts.push(inner);
    if (list) {
      write(value[i] as Json, indent, inner, parts);
    } else {
      const name = names[i] as string;
      parts.push(JSON.stringify(name), indent > 0 ? ': ' : ':');
      write(value[name] as Json, indent, inner, parts);
    }
  }
  if (indent > 0) parts.push(line);
  parts.push(list ? ']' : '}');
}
