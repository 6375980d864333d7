/**
 * A live query by plain HTTP, for networks that let no WebSocket pass: `POST /v1/queries`, one emit a line.
 *
 * The query ends with the connection. Limits: `LINE_LENGTH_MAX` of a line.
 */
import { formatJson, parseJson } from './json.ts';
import { type Problem, type Question, readProblem } from './protocol.ts';

export const LINE_LENGTH_MAX = 64 << 20;

export interface Reader {
  line(text: string): void;
  problem(problem: Problem): void;
  /** The answer has ended; `whole` is false where the connection broke. */
  ended(whole: boolean): void;
}

export async function readQuery(base: string, question: Question, reader: Reader, signal: AbortSignal): Promise<void> {
  try {
    const body = formatJson(question.saved === undefined ? { query: question.text, parameters: question.parameters, dialect: question.dialect } : { saved: question.saved, parameters: question.parameters });
    const answer = await fetch(new URL('v1/queries', base), {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/x-ndjson' },
      body,
      signal,
    });
    if (!answer.ok || answer.body === null) {
      reader.problem(await problemOf(answer));
      return;
    }
    if (/^text\/plain/.test(answer.headers.get('content-type') ?? '')) {
      // EXPLAIN answers with text: a row for each line.
      const lines = (await answer.text()).trimEnd().split('\n');
      reader.line(formatJson({ records: lines.map((plan) => ({ plan })), meta: {} }));
    } else {
      await readLines(answer.body, reader);
    }
    reader.ended(true);
  } catch {
    if (!signal.aborted) reader.ended(false);
  }
}

export async function readLines(body: ReadableStream<Uint8Array>, reader: Pick<Reader, 'line'>): Promise<void> {
  const decoder = new TextDecoder();
  const chunks = body.getReader();
  let rest: string[] = [];
  let length = 0;
  for (;;) {
    const { done, value } = await chunks.read();
    const text = done ? decoder.decode() : decoder.decode(value, { stream: true });
    const lines = text.split('\n');
    for (let i = 0; i < lines.length - 1; i += 1) {
      rest.push(lines[i] as string);
      const line = rest.join('');
      rest = [];
      length = 0;
      if (line.trim() !== '') reader.line(line);
    }
    const tail = lines[lines.length - 1] as string;
    rest.push(tail);
    length += tail.length;
    if (length > LINE_LENGTH_MAX) {
      await chunks.cancel();
      throw new Error('a line is too long');
    }
    if (done) return;
  }
}

/** The problem details of an answer that is no success. */
export async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text().catch(() => '');
  try {
    const problem = readProblem(parseJson(text));
    if (problem.status !== 0) return problem;
  } catch {
    // No JSON: a proxy answered, not the server.
  }
  return { title: `The server answered ${answer.status}`, status: answer.status, detail: text.slice(0, 300) };
}
