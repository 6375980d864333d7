/**
 * Validates the text of a question with the server while the reader writes, and what the page says of it.
 *
 * A question is validated 250 ms after its last change, a large one after a second; an answer that a change has overtaken is left.
 */
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { documentBase } from './client.ts';
import type { Mark } from './editor.ts';
import { type Json, formatJson, parseJson } from './json.ts';
import { problemOf } from './ndjson.ts';
import { endOfToken, offsetOf, readPlace } from './places.ts';
import { type DeclaredColumn, type Problem, type QueryFault, isObject, readColumns } from './protocol.ts';
import { type Tab, questionOf } from './tabs.ts';
import { cut, visible } from './text.ts';
import { announce } from './ui.tsx';

const VALIDATE_MS = 250;
const VALIDATE_LARGE_MS = 1000;
const LARGE_LENGTH = 100_000;
const COLUMNS_SHOWN = 12;

export interface Valid {
  warnings: string[];
  columns: DeclaredColumn[] | null;
  windowed: boolean;
}

/** The answer for `text`, which the question's text may have left since. */
export type Fault = { text: string; problem: Problem } | { text: string; valid: Valid };

export const faults = signal(new Map<number, Fault>());

/** All faults of a problem; the one of the problem itself if it names no others. */
export function faultsOf(problem: Problem): QueryFault[] {
  if (problem.errors !== undefined && problem.errors.length > 0) return problem.errors;
  const fault: QueryFault = { message: problem.detail ?? problem.title };
  if (problem.hint !== undefined) fault.hint = problem.hint;
  if (problem.line !== undefined) fault.line = problem.line;
  if (problem.column !== undefined) fault.column = problem.column;
  return [fault];
}

/** The marks of an answer in its text. */
export function marksOf(fault: Fault): Mark[] {
  const { text } = fault;
  const mark = (severity: Mark['severity'], message: string, hint: string, line: number | undefined, column: number | undefined): Mark[] => {
    if (line === undefined) return [];
    const from = offsetOf(text, line, column ?? 1);
    return [{ from, to: endOfToken(text, from), severity, message, hint }];
  };
  if ('problem' in fault) return faultsOf(fault.problem).flatMap(({ message, hint, line, column }) => mark('error', message, hint ?? '', line, column));
  return fault.valid.warnings.flatMap((warning) => {
    const placed = readPlace(warning);
    return mark('warning', placed.text, '', placed.line, placed.column);
  });
}

/** The line below the editor for a valid question: the columns of its result, as far as they are known. */
export function validText({ columns, windowed }: Valid): string {
  if (columns === null || columns.length === 0) return 'Valid.';
  const shown = columns.slice(0, COLUMNS_SHOWN).map(({ name, type }) => visible(cut(name, 40)) + (type === undefined ? '' : ` ${visible(cut(type, 30))}`));
  const more = columns.length - shown.length;
  return `Valid: ${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}${windowed ? ', by window' : ''}.`;
}

function readValid(text: string): Valid {
  const facts = parseJson(text);
  if (!isObject(facts)) return { warnings: [], columns: null, windowed: false };
  const warnings = Array.isArray(facts.warnings) ? facts.warnings.filter((warning) => typeof warning === 'string') : [];
  return { warnings, columns: readColumns(facts.columns), windowed: facts.windowed === true };
}

export function useValidation(tab: Tab): void {
  const { text, dialect, parameters } = questionOf(tab);
  const key = `${dialect}\n${JSON.stringify(tab.parameters.value)}\n${text}`;
  useEffect(() => {
    const abort = new AbortController();
    const put = (fault: Fault | null) => {
      const next = new Map(faults.value);
      if (fault === null) next.delete(tab.id);
      else next.set(tab.id, fault);
      faults.value = next;
    };
    if (text.trim() === '') {
      put(null);
      return;
    }
    const validate = async () => {
      try {
        const body: Json = { query: text, parameters, dialect };
        const answer = await fetch(new URL('v1/queries/validate', documentBase), {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: formatJson(body),
          signal: abort.signal,
        });
        if (!answer.ok) {
          const problem = await problemOf(answer);
          if (abort.signal.aborted) return;
          put({ text, problem });
          announce(`Fault: ${problem.detail ?? problem.title}`);
          return;
        }
        const valid = readValid(await answer.text());
        if (!abort.signal.aborted) put({ text, valid });
      } catch {
        if (!abort.signal.aborted) put(null);
      }
    };
    const timer = setTimeout(validate, text.length > LARGE_LENGTH ? VALIDATE_LARGE_MS : VALIDATE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key]);
}
