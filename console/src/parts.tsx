/** Parts of the pages of objects: headings, states, tables, statements that run after they were shown. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { cellText } from './cells.tsx';
import { DEPENDENTS, dependentsIn } from './ddl.ts';
import { formatClock, formatNumber, formatTime, parseTime, zoneName } from './format.ts';
import type { Page } from './fragment.ts';
import { type Json, formatJson } from './json.ts';
import { type Row, type Watched, change, problemOfError, readOnly, statement } from './objects.ts';
import { titleOf } from './page_table.ts';
import type { Problem } from './protocol.ts';
import { addressOf, go } from './route.ts';
import { zone } from './settings.ts';
import { cut, visible, visibleLines } from './text.ts';
import { Dialog, Icon, announce, copyText, toast } from './ui.tsx';

const CELL_LENGTH = 200;
/** The rows of a table before a click shows more: more would make each reading slow. */
const ROWS_SHOWN = 500;

export const shown = (text: string, length = 80): string => visible(cut(text, length));

/** A link to a page or an object, within this page. */
export function ObjectLink({ page, name }: { page: Page; name: string }): JSX.Element {
  return (
    <a class="object" href={addressOf(page, name)} onClick={(event) => followed(event, page, name)}>
      {shown(name)}
    </a>
  );
}

/** Follows a link without loading; other tabs and windows stay the browser's. */
function followed(event: MouseEvent, page: Page, name: string | null): void {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  go(page, name);
}

/** The heading of a page. It takes the focus if a link that the reader followed is gone with the page before. */
export function PageHeading({ title, of, children }: { title: string; of?: Page; children?: ComponentChildren }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (document.activeElement === null || document.activeElement === document.body) heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <div class="bar page-heading">
      {of !== undefined && (
        <>
          <a class="object" href={addressOf(of)} onClick={(event) => followed(event, of, null)}>
            {titleOf(of)}
          </a>
          <span aria-hidden="true">/</span>
        </>
      )}
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      <span class="spring" />
      {children}
    </div>
  );
}

/** `quiet`: the problem is no answer to what the reader did, so it does not interrupt screen readers. */
export function ProblemBox({ problem, again, quiet }: { problem: Problem; again?: () => void; quiet?: boolean }): JSX.Element {
  return (
    <div class="problem" role={quiet === true ? undefined : 'alert'}>
      <Icon name="warn" />
      <span>
        {visibleLines(cut(problem.detail ?? problem.title, 2000))}
        {problem.hint !== undefined && <span class="dim"> {visible(problem.hint)}</span>}
        {problem.line !== undefined && <span class="dim"> Line {problem.line}, column {problem.column ?? 1}.</span>}
      </span>
      {again !== undefined && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** How current the data of a read are, whatever they are. */
export type Currency = Omit<Watched<unknown>, 'at'>;

/** How current the data of a read are: nothing if they are. */
export function Condition({ of }: { of: Currency }): JSX.Element | null {
  const failing = of.problem !== null;
  // Also a first read that fails is spoken of, once for all parts of a page.
  const before = useRef(false);
  useEffect(() => {
    if (before.current !== failing) announce(failing ? 'The data cannot be read now.' : 'The data are current again.');
    before.current = failing;
  }, [failing]);
  if (of.problem !== null && of.data === null) return <ProblemBox problem={of.problem} again={of.again} quiet />;
  if (of.data === null) return <p class="dim waiting">Loading…</p>;
  if (of.staleSince === null) return null;
  return (
    <p class="notice stale">
      Stale since {formatClock(of.staleSince, zone())} {zoneName(of.staleSince, zone())}: {shown(of.problem?.detail ?? of.problem?.title ?? 'the server does not answer', 200)}
    </p>
  );
}

export function Panel({ title, note, actions, children }: { title: string; note?: string; actions?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <section class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {note !== undefined && <span class="dim">{note}</span>}
        <span class="spring" />
        {actions}
      </header>
      {children}
    </section>
  );
}

export interface Fact {
  name: string;
  value: string;
  /** The value needs the reader's attention. */
  warn?: boolean;
}

export function Facts({ facts }: { facts: readonly Fact[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts.map(({ name, value, warn }) => (
        <div key={name} class={warn === true ? 'warned' : ''}>
          <dt>{name}</dt>
          <dd>
            {warn === true && <Icon name="warn" />}
            {value}
          </dd>
        </div>
      ))}
    </dl>
  );
}

export interface Column<T> {
  title: string;
  /** Text, or markup that has its own names. */
  cell(row: T): ComponentChildren;
  number?: boolean;
  wide?: boolean;
  /** The key of the order by this column; with `onSort` its heading is a button. */
  sort?: string;
  /** The cell differs from before. */
  marked?(row: T): boolean;
}

/** A table with a caption that screen readers get; the first column names the row. Of many rows the first are shown. */
export function ObjectTable<T>(props: {
  caption: string;
  columns: ReadonlyArray<Column<T>>;
  rows: readonly T[];
  keyOf(row: T, index: number): string | number;
  sorted?: string;
  onSort?: (key: string) => void;
}): JSX.Element {
  const [most, setMost] = useState(ROWS_SHOWN);
  const { caption, columns } = props;
  const rows = props.rows.slice(0, most);
  const heading = (column: Column<T>): ComponentChildren => {
    const key = column.sort;
    if (key === undefined || props.onSort === undefined) return column.title;
    return (
      <button type="button" class="sort" onClick={() => props.onSort?.(key)}>
        {column.title}
        {props.sorted === key && <Icon name={key === 'name' ? 'up' : 'down'} />}
      </button>
    );
  };
  const table = (
    <div class="object-table" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="unseen">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th
                key={column.title}
                scope="col"
                class={column.number === true ? 'number' : ''}
                aria-sort={props.sorted !== undefined && column.sort === props.sorted ? (column.sort === 'name' ? 'ascending' : 'descending') : undefined}
              >
                {heading(column)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={props.keyOf(row, index)}>
              {columns.map((column, i) => {
                const name = `${column.number === true ? 'number' : ''}${column.wide === true ? ' wide-cell' : ''}${column.marked?.(row) === true ? ' changed' : ''}`;
                return i === 0 ? (
                  <th key={column.title} scope="row" class={name}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.title} class={name}>
                    {column.cell(row)}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
  if (props.rows.length <= most) return table;
  return (
    <>
      {table}
      <div class="bar pager">
        <span class="dim">
          The first {formatNumber(most)} of {formatNumber(props.rows.length)}.
        </span>
        <button type="button" onClick={() => setMost(most * 2)}>
          Show more
        </button>
      </div>
    </>
  );
}

/** A value of a row as one line of text. */
export function valueText(value: Json | undefined): string {
  if (value === undefined) return '';
  if (value !== null && typeof value === 'object') return shown(formatJson(value), CELL_LENGTH);
  return cut(cellText(typeof value === 'string' ? cut(value, CELL_LENGTH) : value), CELL_LENGTH + 20);
}

/** Columns of rows whose names come from the server. */
export function valueColumns(names: readonly string[]): Array<Column<Row>> {
  return names.map((name) => ({ title: shown(name), cell: (row: Row) => valueText(Object.hasOwn(row, name) ? row[name] : undefined) }));
}

export const timeText = (value: Json | undefined): string => {
  const ms = parseTime(value);
  return ms === null ? '' : formatTime(ms, zone(), false);
};
export const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '');
export const numberOf = (value: Json | undefined): number => (typeof value === 'number' ? value : typeof value === 'bigint' ? Number(value) : 0);

export function Code({ text, label }: { text: string; label: string }): JSX.Element {
  return (
    <div class="snippet">
      <div class="bar">
        <span class="dim">{label}</span>
        <span class="spring" />
        <button type="button" class="quiet" aria-label={`Copy: ${label}`} onClick={() => void copyText(text, label)}>
          Copy
        </button>
      </div>
      <pre tabIndex={0} role="region" aria-label={label}>
        {visibleLines(text)}
      </pre>
    </div>
  );
}

export function Empty({ text, example }: { text: string; example: string }): JSX.Element {
  return (
    <>
      <p class="dim">{text}</p>
      <Code text={example} label="Example" />
    </>
  );
}

export interface Action {
  title: string;
  /** The statement of SQL, or the call, that runs. */
  statement: string;
  /** The button's text. */
  button: string;
  danger?: boolean;
  /** What the reader should know before. */
  warning?: ComponentChildren;
  /** What the reader should know while it runs. */
  running?: string;
  /** Runs it; by default as SQL. */
  run?: () => Promise<unknown>;
  done(): void;
}

/** Shows a statement and asks once; nothing runs before the click. */
export function ActionDialog({ action, onClose }: { action: Action; onClose(): void }): JSX.Element {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const isOpen = useRef(true);
  const close = () => {
    isOpen.current = false;
    onClose();
  };
  const start = () => {
    setBusy(true);
    setProblem(null);
    (action.run ?? (() => change(action.statement)))().then(
      () => {
        if (isOpen.current) close();
        toast(`${action.title}: done.`);
        action.done();
      },
      (error: unknown) => {
        setBusy(false);
        const found = problemOfError(error);
        setProblem(found);
        const text = `Failed: ${found.detail ?? found.title}`;
        if (isOpen.current) announce(text);
        else toast(`${action.title}: ${shown(text, 300)}`);
      },
    );
  };
  return (
    <Dialog title={action.title} wide onClose={close}>
      {action.warning}
      <pre class="value-text" tabIndex={0} role="region" aria-label="Statement">
        {visibleLines(action.statement)}
      </pre>
      {problem !== null && <ProblemBox problem={problem} />}
      {busy && action.running !== undefined && (
        <p class="dim" role="status">
          {action.running}
        </p>
      )}
      <div class="bar">
        <button type="button" class={action.danger === true ? 'danger' : 'primary'} disabled={busy} onClick={start}>
          {busy ? 'Running…' : action.button}
        </button>
        <button type="button" onClick={close}>
          {busy ? 'Close' : 'Cancel'}
        </button>
      </div>
    </Dialog>
  );
}

/** A form that shows its statement as it is filled in. */
export function StatementForm(props: { statement: string | null; button: string; done(): void; children: ComponentChildren }): JSX.Element {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const text = props.statement;
  return (
    <form
      class="statement-form"
      onSubmit={(event) => {
        event.preventDefault();
        if (text === null || busy) return;
        setBusy(true);
        setProblem(null);
        change(text)
          .then(
            () => {
              toast('Done.');
              props.done();
            },
            (error: unknown) => setProblem(problemOfError(error)),
          )
          .finally(() => setBusy(false));
      }}
    >
      {props.children}
      <p class="dim">This statement runs:</p>
      <pre class="value-text" tabIndex={0} role="region" aria-label="Statement">
        {text === null ? 'Fill in the names first.' : visibleLines(text)}
      </pre>
      {problem !== null && <ProblemBox problem={problem} />}
      <button type="submit" class="primary" disabled={text === null || busy}>
        {busy ? 'Running…' : props.button}
      </button>
    </form>
  );
}

/** A panel that a button opens, for a form; `begin`: it is open, with the focus in it. Nothing in a read-only console. */
export function Fold({ title, begin, children }: { title: string; begin?: boolean; children(close: () => void): ComponentChildren }): JSX.Element | null {
  const [open, setOpen] = useState(begin === true);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (begin === true) box.current?.querySelector('input')?.focus();
  }, []);
  if (readOnly) return null;
  return (
    <div class="fold" ref={box}>
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
        {title}
      </button>
      {open && <div class="fold-body">{children(() => setOpen(false))}</div>}
    </div>
  );
}

export function TextArea({ label, value, onInput, rows }: { label: string; value: string; onInput(value: string): void; rows: number }): JSX.Element {
  return (
    <label class="field wide">
      <span>{label}</span>
      <textarea rows={rows} spellcheck={false} value={value} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}

export function Field({ label, value, onInput, placeholder }: { label: string; value: string; onInput(value: string): void; placeholder?: string }): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <input type="text" autocomplete="off" spellcheck={false} value={value} placeholder={placeholder ?? ''} onInput={(event) => onInput(event.currentTarget.value)} />
    </label>
  );
}

export function Choice({ label, value, options, onChange }: { label: string; value: string; options: ReadonlyArray<readonly [string, string]>; onChange(value: string): void }): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {options.map(([key, name]) => (
          <option key={key} value={key}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The objects that depend on a stream or view, as far as the server's lists name them. */
export async function dependentsOf(name: string): Promise<string[]> {
  const found = await Promise.all(DEPENDENTS.map(async (of) => dependentsIn(of, await statement(of.statement).catch(() => []), name)));
  return found.flat();
}

export function DependentsWarning({ found, what }: { found: readonly string[]; what: string }): JSX.Element {
  return (
    <>
      <p>{what}</p>
      {found.length > 0 && (
        <>
          <p>At least these depend on it, and must be dropped first:</p>
          <ul class="dependents">
            {found.slice(0, 20).map((one) => (
              <li key={one}>{shown(one, 120)}</li>
            ))}
          </ul>
          {found.length > 20 && <p class="dim">{formatNumber(found.length - 20)} more.</p>}
        </>
      )}
    </>
  );
}
