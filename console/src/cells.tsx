/** Values as the reader sees them: numbers by locale, times with their zone, text with nothing hidden. */
import { formatNumber, formatTime, parseTime } from './format.ts';
import type { Cell } from './picture.ts';
import { zone } from './settings.ts';
import { visible } from './text.ts';

/** One line of text for a cell. */
export function cellText(cell: Cell, isTimeColumn = false): string {
  if (cell === undefined) return '';
  if (cell === null) return 'null';
  if (typeof cell === 'number' && isTimeColumn) return formatTime(cell, zone());
  if (typeof cell === 'number' || typeof cell === 'bigint') return formatNumber(cell, undefined, 6);
  if (typeof cell === 'boolean') return String(cell);
  if (typeof cell === 'string') {
    const time = parseTime(cell);
    return time === null ? visible(cell) : formatTime(time, zone());
  }
  const text = visible(cell.text);
  return cell.length > cell.text.length || cell.text.length >= 200 ? `${text}…` : text;
}

export function cellClass(cell: Cell): string {
  if (cell === null || cell === undefined) return 'cell none';
  if (typeof cell === 'number' || typeof cell === 'bigint') return 'cell number';
  return typeof cell === 'object' ? 'cell long' : 'cell';
}
