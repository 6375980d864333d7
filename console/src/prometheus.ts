/**
 * Reads metrics in Prometheus' text format 0.0.4. Pure and strict: a line that the grammar does not allow is a fault, so that a
 * number is never shown that the server did not write.
 *
 * ```text
 * line   := "" | "# HELP" name text | "# TYPE" name kind | "#" text | sample
 * sample := name [ "{" [ label { "," label } [ "," ] ] "}" ] number [ timestamp ]
 * label  := name "=" '"' text '"'          with \\ \" \n as escapes in the text
 * ```
 */

export interface Sample {
  name: string;
  /** In the order of the text. A map, because a label may have any name. */
  labels: ReadonlyMap<string, string>;
  value: number;
}

/** The most samples of one answer; a server has some thousands. */
export const SAMPLES_MAX = 200_000;

export class MetricsFault extends Error {
  constructor(
    readonly line: number,
    what: string,
  ) {
    super(`line ${line} of the metrics: ${what}`);
  }
}

const KINDS = ['counter', 'gauge', 'histogram', 'summary', 'untyped'];
const NAME = /[a-zA-Z_:][a-zA-Z0-9_:]*/y;
const LABEL = /[a-zA-Z_][a-zA-Z0-9_]*/y;
const SPACE = /[ \t]*/y;
const TEXT = /(?:[^"\\]|\\[\\"n])*/y;
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|Inf|NaN)$/;

export function parseMetrics(text: string): Sample[] {
  const samples: Sample[] = [];
  const typed = new Set<string>();
  text.split('\n').forEach((line, i) => {
    if (line.startsWith('#')) comment(line, i + 1, typed);
    else if (line.trim() !== '') samples.push(new Line(line, i + 1).sample());
    if (samples.length > SAMPLES_MAX) throw new MetricsFault(i + 1, `more than ${SAMPLES_MAX} samples`);
  });
  return samples;
}

function comment(line: string, number: number, typed: Set<string>): void {
  const [, word, name, kind] = /^#[ \t]+(\S+)(?:[ \t]+(\S+))?(?:[ \t]+(.*))?$/.exec(line) ?? [];
  if (word !== 'TYPE' && word !== 'HELP') return;
  NAME.lastIndex = 0;
  if (name === undefined || NAME.exec(name)?.[0] !== name) throw new MetricsFault(number, `${word} has no name`);
  if (word === 'HELP') return;
  if (kind === undefined || !KINDS.includes(kind.trim())) throw new MetricsFault(number, 'TYPE has no kind');
  if (typed.has(name)) throw new MetricsFault(number, 'a second TYPE of the same name');
  typed.add(name);
}

class Line {
  private at = 0;

  constructor(
    private readonly text: string,
    private readonly number: number,
  ) {}

  sample(): Sample {
    this.take(SPACE);
    const name = this.take(NAME);
    if (name === '') this.fail('a name is expected');
    this.take(SPACE);
    const labels = this.text[this.at] === '{' ? this.labels() : new Map<string, string>();
    const rest = this.text.slice(this.at).trim().split(/[ \t]+/);
    if (rest.length > 2 || !NUMBER.test(rest[0] ?? '')) this.fail('a number is expected');
    if (rest[1] !== undefined && !/^-?\d+$/.test(rest[1])) this.fail('a timestamp is expected');
    return { name, labels, value: numberOf(rest[0] as string) };
  }

  private labels(): Map<string, string> {
    const labels = new Map<string, string>();
    this.at += 1;
    for (;;) {
      this.take(SPACE);
      if (this.text[this.at] === '}') break;
      const name = this.take(LABEL);
      if (name === '' || labels.has(name)) this.fail(name === '' ? 'a label is expected' : 'a label has two values');
      this.take(SPACE);
      this.expect('=');
      this.take(SPACE);
      this.expect('"');
      labels.set(name, this.take(TEXT).replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped)));
      this.expect('"');
      this.take(SPACE);
      if (this.text[this.at] !== ',') break;
      this.at += 1;
    }
    this.expect('}');
    return labels;
  }

  private take(pattern: RegExp): string {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text)?.[0] ?? '';
    this.at += found.length;
    return found;
  }

  private expect(character: string): void {
    if (this.text[this.at] !== character) this.fail(`\`${character}\` is expected`);
    this.at += 1;
  }

  private fail(what: string): never {
    throw new MetricsFault(this.number, what);
  }
}

function numberOf(text: string): number {
  const bare = text.replace(/^[+-]/, '');
  const sign = text.startsWith('-') ? -1 : 1;
  return bare === 'Inf' ? sign * Infinity : bare === 'NaN' ? NaN : Number(text);
}
