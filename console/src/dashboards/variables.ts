/**
 * Variables and time of a dashboard: their values, how they become parameters, and how a link carries them. Pure.
 *
 * The fragment is `#/dashboards/NAME?v.carrier=UA&last=900000&refresh=5000&zone=UTC`. Values are typed as the parameters of Ask:
 * numbers, `true`, `false` and `null` are read as such values, anything else is text, and `"15"` in quotes is the text 15.
 */
import { isZone, wellFormed } from '../fragment.ts';
import { readParameter } from '../parameters.ts';
import type { Parameter } from '../protocol.ts';
import { type Bound, type Dashboard, LAST_MS, REFRESH_MS, type Scalar, type Time, isVariableName } from './document.ts';

/** The choices of a dashboard's bar. Null: as the document has it. */
export interface Chosen {
  /** As typed, by the variable's name. */
  values: ReadonlyMap<string, string>;
  time: Time | null;
  refreshMs: number | null;
  zone: string | null;
}

export const NOTHING: Chosen = { values: new Map(), time: null, refreshMs: null, zone: null };
const VALUE_LENGTH_MAX = 4000;

/** A value as a reader types it, so that `readParameter` returns that value. */
export function typed(value: Scalar): string {
  // Digits beyond 2^53 would be read as a whole number of any length.
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) return value.toExponential();
  if (typeof value !== 'string') return String(value);
  return readParameter(value) === value ? value : JSON.stringify(value);
}

function wholeOf(text: string | null, least: number): number | null {
  if (text === null || !/^\d{1,15}$/.test(text)) return null;
  return Number(text) >= least ? Number(text) : null;
}

export function readChosen(fragment: string): Chosen {
  const mark = fragment.indexOf('?');
  const given = new URLSearchParams(mark < 0 ? '' : fragment.slice(mark + 1));
  const values = new Map<string, string>();
  for (const [name, value] of given) {
    if (name.startsWith('v.') && isVariableName(name.slice(2)) && value.length <= VALUE_LENGTH_MAX && values.size < 50) values.set(name.slice(2), value);
  }
  const last = wholeOf(given.get('last'), 1000);
  const [from, to] = [given.get('from'), given.get('to')];
  const isTime = (text: string | null): text is string => text !== null && text.length < 40 && !Number.isNaN(Date.parse(text));
  const zone = given.get('zone');
  return {
    values,
    time: last !== null ? { last_ms: last } : isTime(from) && isTime(to) ? { from, to } : null,
    refreshMs: wholeOf(given.get('refresh'), 1000),
    zone: zone !== null && (zone === 'browser' || isZone(zone)) ? zone : null,
  };
}

/** The part of the fragment behind the name; empty if nothing is chosen. */
export function writeChosen(chosen: Chosen): string {
  const values = new URLSearchParams();
  for (const [name, value] of chosen.values) values.set(`v.${name}`, wellFormed(value));
  if (chosen.time !== null && 'last_ms' in chosen.time) values.set('last', String(chosen.time.last_ms));
  else if (chosen.time !== null) {
    values.set('from', chosen.time.from);
    values.set('to', chosen.time.to);
  }
  if (chosen.refreshMs !== null) values.set('refresh', String(chosen.refreshMs));
  if (chosen.zone !== null) values.set('zone', chosen.zone);
  const text = values.toString();
  return text === '' ? '' : `?${text}`;
}

export interface Settings {
  /** The text in the field of each variable. */
  typed: ReadonlyMap<string, string>;
  values: ReadonlyMap<string, Parameter>;
  time: Time;
  refreshMs: number;
  zone: string;
}

/** The settings in effect: the choice, or else the document's. A list takes only its own values. */
export function settingsOf(dashboard: Dashboard, chosen: Chosen): Settings {
  const texts = new Map<string, string>();
  const values = new Map<string, Parameter>();
  for (const variable of dashboard.variables ?? []) {
    const first = variable.kind === 'list' ? (variable.values[0] ?? null) : variable.kind === 'text' ? '' : null;
    const usual = typed(variable.default === undefined ? first : variable.default);
    const given = chosen.values.get(variable.name);
    const allowed = given !== undefined && (variable.kind !== 'list' || variable.values.some((value) => typed(value) === given));
    const text = allowed ? given : usual;
    texts.set(variable.name, text);
    values.set(variable.name, readParameter(text));
  }
  return { typed: texts, values, time: chosen.time ?? dashboard.time ?? { last_ms: LAST_MS }, refreshMs: chosen.refreshMs ?? dashboard.refresh_ms ?? REFRESH_MS, zone: chosen.zone ?? dashboard.zone ?? 'browser' };
}

export interface Range {
  from: number;
  to: number;
}

/** The range in milliseconds since 1970 at the moment `now`. */
export function rangeOf(time: Time, now: number): Range {
  return 'last_ms' in time ? { from: now - time.last_ms, to: now } : { from: Date.parse(time.from), to: Date.parse(time.to) };
}

/** Values for `$1`, `$2` …. A variable that the dashboard does not have is null. */
export function bind(parameters: readonly Bound[] | undefined, values: ReadonlyMap<string, Parameter>, range: Range): Parameter[] {
  return (parameters ?? []).map((parameter) => {
    if (parameter === null || typeof parameter !== 'object') return parameter;
    if ('variable' in parameter) return values.get(parameter.variable) ?? null;
    return new Date(range[parameter.time]).toISOString();
  });
}

/** True if any parameter depends on the time. */
export const usesTime = (parameters: readonly Bound[] | undefined): boolean => (parameters ?? []).some((one) => one !== null && typeof one === 'object' && 'time' in one);
