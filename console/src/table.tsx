/**
 * The table of a result: only the rows and columns in sight exist. Sorts, finds, hides columns, copies; the first column stays.
 *
 * One focus for the whole grid: arrow keys, Home, End and Page keys move the marked cell, Enter shows its whole value, Ctrl-C copies it.
 */
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core';
import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { cellClass, cellText } from './cells.tsx';
import { isNumberType, isTimeType } from './chart_choice.ts';
import { request } from './client.ts';
import { formatNumber } from './format.ts';
import type { Picture, TablePicture } from './picture.ts';
import { type Pane, look, pause } from './tabs.ts';
import { cut, visible, visibleLines } from './text.ts';
import { Dialog, Icon, Menu, announce, copyText, download } from './ui.tsx';
import { letterKeys } from './settings.ts';

const ROW_PX = 28;
/** Characters of a time with its zone. */
const TIME_LENGTH = 29;
const HEAD_PX = 32;
/** A head with types has two lines. */
const HEAD_TYPES_PX = 46;
const COPY_ROWS_MAX = 20_000;
const PIECE = 20_000;

const px = (length: number) => `${length}px`;

function useVirtualizer(count: number, scroller: { current: HTMLElement | null }, size: (index: number) => number, horizontal: boolean) {
  const [, redraw] = useState(0);
  const options = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: size,
    horizontal,
    overscan: horizontal ? 2 : 8,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw((n) => n + 1),
  };
  const [virtualizer] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(options));
  virtualizer.setOptions(options);
  useLayoutEffect(() => virtualizer._didMount(), []);
  useLayoutEffect(() => virtualizer._willUpdate());
  return virtualizer;
}

interface Opened {
  name: string;
  parts: string[] | null;
}

export function ResultTable({ tab, picture, table }: { tab: Pane; picture: Picture; table: TablePicture }): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const find = useRef<HTMLInputElement>(null);
  const [cursor, setCursor] = useState<{ row: number; column: number }>({ row: 0, column: 0 });
  const [opened, setOpened] = useState<Opened | null>(null);
  const widths = useRef(new Map<string, number>());
  const view = tab.view.value;
  const { columns, total } = table;
  const types = useMemo(() => new Map(picture.columns.map((column) => [column.name, column.type])), [picture.columns]);
  const headPx = columns.some((name) => (types.get(name) ?? '') !== '') ? HEAD_TYPES_PX : HEAD_PX;

  const timeColumns = useMemo(
    () => new Set(picture.columns.filter((c) => isTimeType(c.type) || c.role === 'time' || c.role === 'window_start' || c.role === 'window_end').map((c) => c.name)),
    [picture.columns],
  );

  // Columns only grow, so that live values do not make the table jump.
  let grown = false;
  [columns[0], ...columns.slice(table.columnFrom)].slice(0, table.widths.length).forEach((name, i) => {
    if (name === undefined) return;
    const wanted = Math.ceil(Math.min(360, Math.max(72, 22 + 8.2 * Math.max(table.widths[i] ?? 8, timeColumns.has(name) ? TIME_LENGTH : 0))) / 8) * 8;
    if (wanted <= (widths.current.get(name) ?? 0)) return;
    widths.current.set(name, wanted);
    grown = true;
  });
  const widthOf = (index: number) => widths.current.get(columns[index] ?? '') ?? 96;
  const first = widthOf(0);

  const rows = useVirtualizer(total, scroller, () => ROW_PX, false);
  const rest = useVirtualizer(Math.max(0, columns.length - 1), scroller, (i) => widthOf(i + 1), true);
  useLayoutEffect(() => {
    if (grown) rest.measure();
  });

  // The grid is as high as its rows need, and does not shrink under the reader.
  const height = useRef(0);
  height.current = Math.max(height.current, rows.getTotalSize() + headPx + 20);
  const shown = rows.getVirtualItems();
  const across = rest.getVirtualItems();
  const from = shown[0]?.index ?? 0;
  const count = Math.max(20, shown.length);
  const columnFrom = (across[0]?.index ?? 0) + 1;
  const columnCount = Math.max(8, across.length);
  useEffect(() => {
    if (view.from === from && view.count === count && view.columnFrom === columnFrom && view.columnCount === columnCount) return;
    look(tab, { from, count, columnFrom, columnCount });
  }, [from, count, columnFrom, columnCount]);

  // Rows that move away under the reader cannot be read: scrolling down holds single matches.
  const scrolled = (rows.scrollOffset ?? 0) > ROW_PX;
  useEffect(() => {
    if (!scrolled || picture.status.windowed || view.at !== null || view.sort !== null || picture.status.phase !== 'live') return;
    pause(tab);
    announce('Paused, because you scrolled.');
  }, [scrolled]);

  const numbers = useMemo(() => new Set(picture.columns.filter((c) => (c.type === '' ? c.role === 'measure' : isNumberType(c.type))).map((c) => c.name)), [picture.columns]);
  const cellAt = (row: number, column: number) => {
    const held = table.rows[row - table.from];
    if (column === 0) return held?.cells[0];
    const place = column - table.columnFrom + 1;
    return place >= 1 ? held?.cells[place] : undefined;
  };

  const open = async (row: number, column: number) => {
    const held = table.rows[row - table.from];
    const name = columns[column];
    if (held === undefined || name === undefined) return;
    const parts = await request({ do: 'value', result: tab.id, sequence: held.sequence, row: held.row, column: name });
    setOpened({ name, parts });
  };
  const copyCell = async (row: number, column: number) => {
    const held = table.rows[row - table.from];
    const name = columns[column];
    if (held === undefined || name === undefined) return;
    const parts = await request({ do: 'value', result: tab.id, sequence: held.sequence, row: held.row, column: name });
    if (parts !== null) await copyText(parts.join(''), 'Value');
  };
  const copyAll = async (format: 'tsv' | 'json') => {
    const parts = await request({ do: 'rows', result: tab.id, view: tab.view.value, format, most: COPY_ROWS_MAX });
    const cutShort = total > COPY_ROWS_MAX ? `The first ${COPY_ROWS_MAX} rows` : 'Rows';
    if (parts !== null) await copyText(parts.join(''), cutShort);
  };

  const move = (event: KeyboardEvent) => {
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 280) / ROW_PX) - 2);
    let { row, column } = cursor;
    if (event.target !== scroller.current) return;
    if (event.key === 'ArrowDown') row += 1;
    else if (event.key === 'ArrowUp') row -= 1;
    else if (event.key === 'ArrowRight') column += 1;
    else if (event.key === 'ArrowLeft') column -= 1;
    else if (event.key === 'PageDown') row += page;
    else if (event.key === 'PageUp') row -= page;
    else if (event.key === 'Home') [row, column] = event.ctrlKey ? [0, 0] : [row, 0];
    else if (event.key === 'End') [row, column] = event.ctrlKey ? [total - 1, column] : [row, columns.length - 1];
    else if (event.key === 'Enter') {
      event.preventDefault();
      void open(row, column);
      return;
    } else if ((event.ctrlKey || event.metaKey) && event.key === 'c' && String(getSelection()) === '') {
      event.preventDefault();
      void copyCell(row, column);
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
    row = Math.max(0, Math.min(total - 1, row));
    column = Math.max(0, Math.min(columns.length - 1, column));
    setCursor({ row, column });
    rows.scrollToIndex(row, { align: 'auto' });
    if (column > 0) rest.scrollToIndex(column - 1, { align: 'auto' });
  };

  useEffect(() => {
    const focus = (event: KeyboardEvent) => {
      if (!letterKeys.value || event.key !== '/' || isTyping(event.target)) return;
      event.preventDefault();
      find.current?.focus();
    };
    document.addEventListener('keydown', focus);
    return () => document.removeEventListener('keydown', focus);
  }, []);

  const sortBy = (name: string) => {
    const { sort } = tab.view.value;
    const next = sort?.column !== name ? { column: name, descending: true } : sort.descending ? { column: name, descending: false } : null;
    look(tab, { sort: next });
    announce(next === null ? 'Not sorted' : `Sorted by ${name}, ${next.descending ? 'largest' : 'smallest'} first`);
  };
  const header = (name: string, width: number, index: number, left: number | null) => {
    const sort = view.sort?.column === name ? (view.sort.descending ? 'descending' : 'ascending') : undefined;
    const type = visible(cut(types.get(name) ?? '', 60));
    return (
      <div
        key={name}
        role="columnheader"
        aria-colindex={index + 1}
        aria-sort={sort ?? 'none'}
        class={`th${left === null ? ' pinned' : ''}${numbers.has(name) ? ' number' : ''}`}
        style={left === null ? { width: px(width) } : { width: px(width), left: px(first + left) }}
      >
        <button type="button" tabIndex={index < 12 ? 0 : -1} title={`Sort by ${visible(cut(name, 200))}${type === '' ? '' : ` (${type})`}`} onClick={() => sortBy(name)}>
          <span class="th-text">
            <span class="th-name">{visible(cut(name, 100))}</span>
            {type !== '' && <span class="th-type"> {type}</span>}
          </span>
          {sort !== undefined && <Icon name={sort === 'descending' ? 'down' : 'up'} />}
        </button>
      </div>
    );
  };
  const cell = (row: number, column: number, width: number, left: number | null) => {
    const value = cellAt(row, column);
    const text = cellText(value, timeColumns.has(columns[column] ?? ''));
    const marked = cursor.row === row && cursor.column === column;
    return (
      <div
        key={column}
        role="gridcell"
        id={marked ? `cell-${tab.id}` : undefined}
        aria-colindex={column + 1}
        class={`${cellClass(value)}${numbers.has(columns[column] ?? '') ? ' right' : ''}${left === null ? ' pinned' : ''}${marked ? ' marked' : ''}`}
        style={left === null ? { width: px(width) } : { width: px(width), left: px(first + left) }}
        onClick={() => setCursor({ row, column })}
        onDblClick={() => void open(row, column)}
      >
        {text}
      </div>
    );
  };

  return (
    <div class="result-table">
      <div class="bar">
        <label class="find">
          <Icon name="search" />
          <span class="unseen">Find in rows</span>
          <input
            ref={find}
            type="search"
            placeholder="Find in rows"
            value={view.find}
            onInput={(event) => look(tab, { find: event.currentTarget.value, from: 0 })}
          />
        </label>
        <span class="dim">
          {formatNumber(total)} {total === 1 ? 'row' : 'rows'} · {formatNumber(columns.length)} {columns.length === 1 ? 'column' : 'columns'}
          {view.hidden.length > 0 && `, ${view.hidden.length} hidden`}
        </span>
        <span class="spring" />
        <ColumnsMenu tab={tab} picture={picture} />
        <Menu label="Copy" quiet>
          {(close) => (
            <>
              <button type="button" onClick={() => (close(), void copyAll('tsv'))}>
                Rows as TSV
              </button>
              <button type="button" onClick={() => (close(), void copyAll('json'))}>
                Rows as JSON
              </button>
              <button type="button" onClick={() => (close(), void copyCell(cursor.row, cursor.column))}>
                Marked value
              </button>
            </>
          )}
        </Menu>
        <button type="button" class="quiet" onClick={() => void open(cursor.row, cursor.column)} title="Enter, or a double click on a value">
          Show value
        </button>
      </div>
      <div
        ref={scroller}
        class="grid"
        style={{ height: px(height.current) }}
        role="grid"
        aria-label="Rows"
        aria-rowcount={total + 1}
        aria-colcount={columns.length}
        aria-activedescendant={cellAt(cursor.row, cursor.column) === undefined ? undefined : `cell-${tab.id}`}
        tabIndex={0}
        onKeyDown={move}
      >
        <div class="grid-in" style={{ height: px(rows.getTotalSize() + headPx), width: px(first + rest.getTotalSize()) }}>
          <div class="tr head" role="row" aria-rowindex={1} style={{ height: px(headPx) }}>
            {columns[0] !== undefined && header(columns[0], first, 0, null)}
            {across.map((item) => header(columns[item.index + 1] ?? '', item.size, item.index + 1, item.start))}
          </div>
          {shown.map((item) => (
            <div
              key={item.index}
              class={item.index % 2 === 1 ? 'tr odd' : 'tr'}
              role="row"
              aria-rowindex={item.index + 2}
              style={{ transform: `translateY(${item.start + headPx}px)` }}
            >
              {columns[0] !== undefined && cell(item.index, 0, first, null)}
              {across.map((column) => cell(item.index, column.index + 1, column.size, column.start))}
            </div>
          ))}
        </div>
      </div>
      {total === 0 && view.find !== '' && <p class="dim">No row has “{visible(cut(view.find, 100))}”.</p>}
      {opened !== null && <ValueDialog name={opened.name} parts={opened.parts} onClose={() => setOpened(null)} />}
    </div>
  );
}

export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

function ColumnsMenu({ tab, picture }: { tab: Pane; picture: Picture }): JSX.Element {
  const [filter, setFilter] = useState('');
  const view = tab.view.value;
  const names = picture.columns.map((column) => column.name).filter((name) => name.toLowerCase().includes(filter.toLowerCase()));
  const toggle = (name: string) => {
    const hidden = view.hidden.includes(name) ? view.hidden.filter((other) => other !== name) : [...view.hidden, name];
    look(tab, { hidden });
  };
  return (
    <Menu label="Columns" quiet>
      {() => (
        <div class="columns-menu">
          {picture.columns.length > 12 && (
            <input
              type="search"
              aria-label="Filter columns"
              placeholder="Filter columns"
              value={filter}
              onInput={(event) => setFilter(event.currentTarget.value)}
            />
          )}
          <div class="bar">
            <button type="button" class="quiet" onClick={() => look(tab, { hidden: [] })}>
              Show all
            </button>
            <button type="button" class="quiet" onClick={() => look(tab, { hidden: picture.columns.slice(1).map((column) => column.name) })}>
              Hide all
            </button>
          </div>
          {names.slice(0, 200).map((name) => (
            <label key={name} class="check">
              <input type="checkbox" checked={!view.hidden.includes(name)} onChange={() => toggle(name)} />
              <span>{visible(cut(name, 60))}</span>
            </label>
          ))}
          {names.length > 200 && <p class="dim">{names.length - 200} more: filter by name.</p>}
        </div>
      )}
    </Menu>
  );
}

/** One value, whole: a piece at a time, so that a value of a megabyte does not stop the page. */
function ValueDialog({ name, parts, onClose }: { name: string; parts: string[] | null; onClose(): void }): JSX.Element {
  const text = parts?.join('') ?? '';
  const [length, setLength] = useState(PIECE);
  const more = text.length - length;
  return (
    <Dialog title={visible(cut(name, 100))} wide onClose={onClose}>
      {parts === null ? (
        <p>This row has left memory, or has no such value.</p>
      ) : (
        <>
          <div class="bar">
            <span class="dim">{formatNumber(text.length)} characters</span>
            <span class="spring" />
            <button type="button" onClick={() => void copyText(text, 'Value')}>
              Copy all
            </button>
            <button type="button" onClick={() => download('value.txt', [text], 'text/plain')}>
              Download
            </button>
          </div>
          <pre class="value-text" tabIndex={0} aria-label="Value">
            {visibleLines(cut(text, length))}
          </pre>
          {more > 0 && (
            <button type="button" onClick={() => setLength(length + PIECE)}>
              Show {formatNumber(Math.min(PIECE, more))} more of {formatNumber(more)}
            </button>
          )}
        </>
      )}
    </Dialog>
  );
}
