/** Parameters of a panel as a reader types them, one a line: a value, `:name` for a variable, `@from` and `@to` for the time. Pure. */
import { readParameter } from '../parameters.ts';
import { type Bound, isVariableName } from './document.ts';
import { typed } from './variables.ts';

export function writeBound(parameters: readonly Bound[] | undefined): string {
  return (parameters ?? [])
    .map((one) => {
      if (one !== null && typeof one === 'object') return 'variable' in one ? `:${one.variable}` : `@${one.time}`;
      const text = typed(one);
      // A text that would be read as a variable, a time, or several lines is written with its quotes.
      return typeof one === 'string' && (/^[:@]/.test(text) || /[\r\n]/.test(text) || text !== text.trim() || text === '') ? JSON.stringify(one) : text;
    })
    .join('\n');
}

export function readBound(text: string): Bound[] {
  const lines = text.split('\n').map((line) => line.trim());
  while (lines.length > 0 && lines[lines.length - 1] === '') lines.pop();
  return lines.map((line): Bound => {
    if (line === '@from') return { time: 'from' };
    if (line === '@to') return { time: 'to' };
    if (line.startsWith(':') && isVariableName(line.slice(1))) return { variable: line.slice(1) };
    const value = readParameter(line);
    return typeof value === 'bigint' ? String(value) : value;
  });
}
