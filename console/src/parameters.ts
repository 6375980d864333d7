/** The placeholders `$1`, `$2` … of a query, and values as they are typed. Pure. */
import type { Parameter } from './protocol.ts';

export const PARAMETERS_MAX = 64;

/** The number of parameters that `text` needs: its greatest placeholder outside of texts, names and comments. */
export function parameterCount(text: string): number {
  const code = text.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\//g, ' ');
  let most = 0;
  for (const match of code.matchAll(/\$(\d{1,4})/g)) most = Math.max(most, Number(match[1]));
  return Math.min(most, PARAMETERS_MAX);
}

/** A number, `true`, `false` or `null` as such; text in double quotes as that text; anything else as text. */
export function readParameter(typed: string): Parameter {
  const text = typed.trim();
  if (text === 'true') return true;
  if (text === 'false') return false;
  if (text === 'null') return null;
  if (/^-?(0|[1-9]\d*)$/.test(text)) {
    const number = Number(text);
    return Number.isSafeInteger(number) ? number : BigInt(text);
  }
  if (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) return Number(text);
  if (/^"[\s\S]*"$/.test(text)) {
    try {
      const value: unknown = JSON.parse(text);
      if (typeof value === 'string') return value;
    } catch {
      // Not JSON: the quotes are part of the text.
    }
  }
  return typed;
}
