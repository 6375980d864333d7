/**
 * Rows as files and as clipboard text.
 *
 * Values are raw: no locale, no zone, whole numbers with all digits. In CSV and TSV a text that a spreadsheet would run as a
 * formula gets an apostrophe before it.
 */
import { type Json, formatJson } from './json.ts';
import type { Row } from './live_query.ts';
import type { Question } from './protocol.ts';

export type Format = 'csv' | 'tsv' | 'json' | 'ndjson';

const FORMULA = /^[=+\-@\t\r]/;

/** The text of `rows`, in parts that are to be joined. Columns that a row does not have are empty, or left out in JSON. */
export function exportRows(rows: Iterable<Row>, columns: readonly string[], format: Format): string[] {
  const parts: string[] = [];
  if (format === 'csv') parts.push(`${columns.map(csvText).join(',')}\r\n`);
  if (format === 'tsv') parts.push(`${columns.map(tsvText).join('\t')}\n`);
  if (format === 'json') parts.push('[');
  let first = true;
  for (const row of rows) {
    if (format === 'csv') parts.push(`${columns.map((name) => csvCell(own(row, name))).join(',')}\r\n`);
    else if (format === 'tsv') parts.push(`${columns.map((name) => tsvCell(own(row, name))).join('\t')}\n`);
    else if (format === 'ndjson') parts.push(`${formatJson(pick(row, columns))}\n`);
    else parts.push(`${first ? '\n' : ',\n'}${formatJson(pick(row, columns))}`);
    first = false;
  }
  if (format === 'json') parts.push('\n]\n');
  return parts;
}

const own = (row: Row, name: string): Json | undefined => (Object.hasOwn(row, name) ? row[name] : undefined);

function pick(row: Row, columns: readonly string[]): Json {
  const picked: Row = {};
  for (const name of columns) {
    if (!Object.hasOwn(row, name)) continue;
    Object.defineProperty(picked, name, { value: row[name], enumerable: true, configurable: true, writable: true });
  }
  return picked;
}

const harmless = (text: string) => (FORMULA.test(text) ? `'${text}` : text);

function csvText(text: string): string {
  const safe = harmless(text);
  return /[",\r\n]/.test(safe) || safe !== text || text === '' ? `"${safe.replace(/"/g, '""')}"` : safe;
}

function csvCell(value: Json | undefined): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return csvText(value);
  return typeof value === 'object' ? csvText(formatJson(value)) : String(value);
}

const tsvText = (text: string) => harmless(text).replace(/[\t\r\n]+/g, ' ');

function tsvCell(value: Json | undefined): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'string') return tsvText(value);
  return typeof value === 'object' ? tsvText(formatJson(value)) : String(value);
}

/** `text` as one word of a POSIX shell. */
export function shellWord(text: string): string {
  return `'${text.replace(/'/g, `'\\''`)}'`;
}

/** A command or program that asks the same question; `server` is the server's address without a slash at its end. */
export function copyAs(kind: 'curl' | 'cli' | 'python', server: string, question: Question): string {
  const { text, parameters, dialect } = question;
  const plain = parameters.length === 0 && dialect === 'native';
  const body: Json = { query: text };
  if (parameters.length > 0) body.parameters = parameters;
  if (dialect === 'bullet') body.dialect = dialect;
  if (kind === 'curl') {
    const content = plain ? '' : ` -H 'content-type: application/json'`;
    const data = plain ? text : formatJson(body);
    return `curl -fsSN ${shellWord(`${server}/v1/queries`)} -H 'accept: application/x-ndjson'${content} --data-binary ${shellWord(data)}`;
  }
  if (kind === 'cli') {
    const values = parameters.map((value) => ` -p ${shellWord(parameterText(value))}`).join('');
    return `swiftwater query --server ${shellWord(server)}${dialect === 'bullet' ? ' --bullet' : ''}${values} ${shellWord(text)}`;
  }
  return `import json, urllib.request

body = json.loads(${pythonText(formatJson(body))})
request = urllib.request.Request(
    ${pythonText(`${server}/v1/queries`)},
    data=json.dumps(body).encode(),
    headers={"content-type": "application/json", "accept": "application/x-ndjson"},
)
with urllib.request.urlopen(request) as answer:
    for line in answer:
        for record in json.loads(line)["records"]:
            print(record)
`;
}

/** A value as `swiftwater query -p` reads it: text that would be read as something else is JSON text. */
function parameterText(value: Json): string {
  if (typeof value !== 'string') return formatJson(value);
  return /^(\s*-?[0-9.]|\s*(true|false|null)\s*$|\s*"|-)/.test(value) ? formatJson(value) : value;
}

/** A literal of Python: JSON's escapes, with all that is not ASCII escaped. */
function pythonText(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
