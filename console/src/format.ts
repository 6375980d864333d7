/**
 * Numbers, times and sizes as a reader sees them.
 *
 * Locale and zone are passed in, so an output depends on nothing else. Copied and exported values are raw and do not come from here.
 */

const numbers = new Map<string, Intl.NumberFormat>();
const dates = new Map<string, Intl.DateTimeFormat>();
const FORMATS_MAX = 200;

function numberFormat(locale: string | undefined, digits: number): Intl.NumberFormat {
  const key = `${locale ?? ''}|${digits}`;
  let format = numbers.get(key);
  if (format === undefined) {
    if (numbers.size >= FORMATS_MAX) numbers.clear();
    format = new Intl.NumberFormat(locale, { maximumFractionDigits: digits });
    numbers.set(key, format);
  }
  return format;
}

/**
 * A number with the locale's separators: up to `digits` fraction digits from 1 up, up to 6 significant ones below, powers of ten
 * beyond 1e15 and below 1e-6. A `bigint` keeps all its digits.
 */
export function formatNumber(value: number | bigint, locale?: string, digits = 3): string {
  if (typeof value === 'bigint') return numberFormat(locale, 0).format(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '-∞';
  const size = Math.abs(value);
  if (size !== 0 && ((size >= 1e15 && !Number.isSafeInteger(value)) || size < 1e-6)) return value.toExponential();
  return numberFormat(locale, size >= 1 || size === 0 ? digits : Math.min(20, 5 - Math.floor(Math.log10(size)))).format(value);
}

/** A short number for axes and rates: `1.2M`. */
export function formatShort(value: number, locale?: string): string {
  const size = Math.abs(value);
  if (size < 1000) return numberFormat(locale, size >= 100 ? 0 : size >= 10 ? 1 : 2).format(value);
  const units = ['k', 'M', 'G', 'T', 'P'];
  let scaled = value;
  let unit = '';
  for (const next of units) {
    if (Math.abs(scaled) < 999.95) break;
    scaled /= 1000;
    unit = next;
  }
  return `${numberFormat(locale, Math.abs(scaled) >= 100 ? 0 : 1).format(scaled)}${unit}`;
}

export function formatBytes(bytes: number, locale?: string): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let scaled = bytes;
  let unit = 0;
  while (Math.abs(scaled) >= 1024 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${numberFormat(locale, unit === 0 || scaled >= 100 ? 0 : 1).format(scaled)} ${units[unit]}`;
}

/** A duration in its largest fitting unit: `850 ms`, `2.5 s`, `3 min`. */
export function formatDuration(ms: number, locale?: string): string {
  const size = Math.abs(ms);
  if (size < 1000) return `${numberFormat(locale, 0).format(ms)} ms`;
  if (size < 60_000) return `${numberFormat(locale, 1).format(ms / 1000)} s`;
  if (size < 3_600_000) return `${numberFormat(locale, 0).format(ms / 60_000)} min`;
  if (size < 172_800_000) return `${numberFormat(locale, 1).format(ms / 3_600_000)} h`;
  return `${numberFormat(locale, 0).format(ms / 86_400_000)} d`;
}

function dateFormat(zone: string): Intl.DateTimeFormat {
  let format = dates.get(zone);
  if (format === undefined) {
    if (dates.size >= FORMATS_MAX) dates.clear();
    format = new Intl.DateTimeFormat('en-GB', {
      timeZone: zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: '2-digit',
      day: '2-digit',
      hour: '2-digit',
      minute: '2-digit',
      second: '2-digit',
      timeZoneName: 'short',
    });
    dates.set(zone, format);
  }
  return format;
}

function parts(ms: number, zone: string): { [type: string]: string } {
  const found: { [type: string]: string } = {};
  for (const part of dateFormat(zone).formatToParts(ms)) found[part.type] = part.value;
  return found;
}

function milliseconds(ms: number): string {
  return String(((Math.floor(ms) % 1000) + 1000) % 1000).padStart(3, '0');
}

/** A whole time with its zone beside it: `2026-11-30 16:22:25.103 UTC`. */
export function formatTime(ms: number, zone: string, precise = true): string {
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) return 'invalid time';
  const p = parts(ms, zone);
  return `${p.year}-${p.month}-${p.day} ${p.hour}:${p.minute}:${p.second}${precise ? `.${milliseconds(ms)}` : ''} ${p.timeZoneName}`;
}

/** The time of the day: `16:22:25`. The zone must stand beside it, on the axis or in the heading. */
export function formatClock(ms: number, zone: string, precise = false): string {
  if (!Number.isFinite(ms) || Math.abs(ms) > 8.64e15) return 'invalid time';
  const p = parts(ms, zone);
  return `${p.hour}:${p.minute}:${p.second}${precise ? `.${milliseconds(ms)}` : ''}`;
}

/** The short name of the zone at this time: `UTC`, `CET`, `GMT+2`. */
export function zoneName(ms: number, zone: string): string {
  return parts(ms, zone).timeZoneName ?? zone;
}

const RFC3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)$/;

/** Milliseconds since 1970 of a time as RFC 3339 text, or null. */
export function parseTime(text: unknown): number | null {
  if (typeof text !== 'string' || text.length > 40 || !RFC3339.test(text)) return null;
  const ms = Date.parse(text.replace(' ', 'T'));
  return Number.isNaN(ms) ? null : ms;
}
