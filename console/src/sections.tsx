/** Parts of the pages for operators, beside those of `parts.tsx`: tables, bars, and the question before something ends. */
import type { ComponentChildren, JSX, RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { serverNow } from './client.ts';
import { formatDuration, formatNumber, formatShort, formatTime, parseTime } from './format.ts';
import type { Page } from './fragment.ts';
import type { Json } from './json.ts';
import { problemOfError } from './objects.ts';
import { ProblemBox, shown } from './parts.tsx';
import type { Problem } from './protocol.ts';
import { addressOf, go } from './route.ts';
import { zone } from './settings.ts';
import { cut, visible, visibleLines } from './text.ts';
import { Dialog, announce, toast } from './ui.tsx';


/** A share from 0 to 1 in percent. */
export const percent = (share: number): string => `${formatNumber(Math.round(share * 1000) / 10)} %`;

/** A time of a clock with microseconds: `50 µs`, `2 ms`, `1.5 s`. */
export function shortTime(seconds: number): string {
  if (!Number.isFinite(seconds)) return '∞';
  if (seconds > 0 && seconds < 0.001) return `${formatShort(seconds * 1e6)} µs`;
  if (seconds < 0.1) return `${formatNumber(seconds * 1000, undefined, 1)} ms`;
  return formatDuration(seconds * 1000);
}

/** The age of a time by the server's clock. */
export function age(time: Json | undefined): string {
  const at = parseTime(time);
  return at === null ? '–' : formatDuration(Math.max(0, serverNow() - at));
}

export const timeText = (time: Json | undefined): string => {
  const at = parseTime(time);
  return at === null ? '–' : formatTime(at, zone(), false);
};

export function StreamLink({ name }: { name: string }): JSX.Element {
  return <PlaceLink page="streams" name={name} />;
}

/** A link to an object of a page. Other tabs and windows stay the browser's. */
export function PlaceLink({ page, name }: { page: Page; name: string }): JSX.Element {
  const follow = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
    event.preventDefault();
    go(page, name);
  };
  return (
    <a class="place" href={addressOf(page, name)} onClick={follow}>
      {shown(name, 60)}
    </a>
  );
}

export interface Cell<T> {
  title: string;
  cell(row: T): ComponentChildren;
  number?: boolean;
  /** Text that may be long: it takes the rest of the width. */
  wide?: boolean;
  /** A value that may be long: it wraps. */
  wrap?: boolean;
  /** A heading that only screen readers need. */
  unseen?: boolean;
}

/** A table with a caption; the first column names the row. It scrolls by itself where it is too wide. */
export function Grid<T>(props: { caption: string; columns: ReadonlyArray<Cell<T>>; rows: readonly T[]; keyOf(row: T, index: number): string | number; marked?(row: T): boolean }): JSX.Element {
  const classOf = (column: Cell<T>) => `${column.number === true ? 'number' : ''}${column.wide === true ? ' wide' : ''}${column.wrap === true ? ' wrap' : ''}`;
  return (
    <div class="sheet" role="region" aria-label={props.caption} tabIndex={0}>
      <table>
        <caption class="unseen">{props.caption}</caption>
        <thead>
          <tr>
            {props.columns.map((column) => (
              <th key={column.title} scope="col" class={classOf(column)}>
                {column.unseen === true ? <span class="unseen">{column.title}</span> : column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.rows.map((row, index) => (
            <tr key={props.keyOf(row, index)} class={props.marked?.(row) === true ? 'changed' : ''}>
              {props.columns.map((column, i) =>
                i === 0 ? (
                  <th key={column.title} scope="row" class={classOf(column)}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.title} class={classOf(column)}>
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Shares of a whole as one bar. The numbers stand beside it. */
export function Shares({ shares }: { shares: readonly number[] }): JSX.Element {
  let from = 0;
  return (
    <span class="shares" aria-hidden="true">
      {shares.map((share, i) => {
        const width = Math.max(0, Math.min(1 - from, share));
        const left = from;
        from += width;
        return <span key={i} class={`share share-${i % 4}`} style={{ left: `${left * 100}%`, width: `${width * 100}%` }} />;
      })}
    </span>
  );
}

/** Moves the focus to the list in `box` when the focused row has gone. The result announces that a row is about to go. */
export function useFocusKept(box: RefObject<HTMLDivElement | null>): () => void {
  const due = useRef(false);
  useEffect(() => {
    if (!due.current || document.activeElement !== document.body) return;
    due.current = false;
    (box.current?.querySelector<HTMLElement>('[role="region"]') ?? box.current)?.focus();
  });
  return () => {
    due.current = true;
  };
}

export interface Question {
  title: string;
  /** What is affected, such as the text of a query. */
  text: string;
  warning: string;
  button: string;
  run(): Promise<unknown>;
  done(): void;
}

/** Asks once before something ends; nothing runs before the click. */
export function AskOnce({ question, onClose }: { question: Question; onClose(): void }): JSX.Element {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const start = () => {
    setBusy(true);
    setProblem(null);
    question.run().then(
      () => {
        onClose();
        toast(`${question.title}: done.`);
        question.done();
      },
      (error: unknown) => {
        setBusy(false);
        const found = problemOfError(error);
        setProblem(found);
        announce(`Failed: ${visible(found.detail ?? found.title)}`);
      },
    );
  };
  return (
    <Dialog title={question.title} wide onClose={onClose}>
      <p>{question.warning}</p>
      <pre class="value-text" tabIndex={0} role="region" aria-label="What is affected">
        {visibleLines(cut(question.text, 20_000))}
      </pre>
      {problem !== null && <ProblemBox problem={problem} />}
      <div class="bar">
        <button type="button" class="primary" disabled={busy} onClick={start}>
          {busy ? 'Running…' : question.button}
        </button>
        <button type="button" onClick={onClose}>
          Back
        </button>
      </div>
    </Dialog>
  );
}

/** The buttons of a list that comes in pages. `pages`: the `after` of each page behind the first, up to this one; `next`: that of the following one. */
export function Pager({ pages, next, show }: { pages: string[]; next: string | null; show(pages: string[]): void }): JSX.Element | null {
  if (pages.length === 0 && next === null) return null;
  return (
    <div class="bar pager">
      <button type="button" disabled={pages.length === 0} onClick={() => show(pages.slice(0, -1))}>
        Previous page
      </button>
      <button type="button" disabled={next === null} onClick={() => next !== null && show([...pages, next])}>
        Next page
      </button>
      <span class="dim">Page {formatNumber(pages.length + 1)}</span>
    </div>
  );
}
