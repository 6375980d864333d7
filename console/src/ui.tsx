/** Small parts that all pages use: icons, menus, dialogs, and the one place that speaks to screen readers. */
import { signal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';

/** A dialog that no page owns: it stays while pages change. */
export const overlay = signal<JSX.Element | null>(null);

const PATHS = {
  run: 'M5 3.5v9l7.5-4.5z',
  stop: 'M4 4h8v8H4z',
  pause: 'M4.5 3.5h2.5v9H4.5zM9 3.5h2.5v9H9z',
  back: 'M10.5 3.5 6 8l4.5 4.5',
  forward: 'M5.5 3.5 10 8l-4.5 4.5',
  close: 'M4 4l8 8M12 4l-8 8',
  add: 'M8 3v10M3 8h10',
  down: 'M4 6l4 4 4-4',
  up: 'M4 10l4-4 4 4',
  search: 'M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM10.2 10.2 13.5 13.5',
  check: 'M3 8.5 6.5 12 13 4.5',
  warn: 'M8 2.5 14 13H2zM8 6.5v3M8 11.2v.6',
  again: 'M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3',
} as const;

const FILLED: readonly string[] = ['run', 'stop', 'pause'];

export function Icon({ name }: { name: keyof typeof PATHS }): JSX.Element {
  return (
    <svg class={FILLED.includes(name) ? 'icon filled' : 'icon'} viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}

const spoken = signal('');
let speakAt = 0;
let next: ReturnType<typeof setTimeout> | undefined;

/** Speaks `text` to screen readers: at most once a second, the newest wins. */
export function announce(text: string): void {
  clearTimeout(next);
  const wait = Math.max(0, speakAt - Date.now());
  next = setTimeout(() => {
    speakAt = Date.now() + 1000;
    spoken.value = text;
  }, wait);
}

export function Announcer(): JSX.Element {
  return (
    <div class="unseen" role="status" aria-live="polite">
      {spoken.value}
    </div>
  );
}

export function Dialog(props: { title: string; onClose(): void; wide?: boolean; children: ComponentChildren }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      // The dialog leaves the document next; then the focus is nowhere unless it goes back to where it was.
      queueMicrotask(() => {
        if (before instanceof HTMLElement && (document.activeElement === null || document.activeElement === document.body)) before.focus();
      });
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      class={props.wide === true ? 'dialog wide' : 'dialog'}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => {
        if (event.target === dialog.current) props.onClose();
      }}
    >
      <div class="dialog-body">
        <header>
          <h2 id={id}>{props.title}</h2>
          <button type="button" class="quiet" aria-label="Close" onClick={props.onClose}>
            <Icon name="close" />
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

/** A button that shows a list of actions below it. Escape and a click elsewhere close it. */
export function Menu(props: { label: string; quiet?: boolean; children: (close: () => void) => ComponentChildren }): JSX.Element {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => {
      if (event.target instanceof Node && box.current?.contains(event.target) !== true) setOpen(false);
    };
    document.addEventListener('pointerdown', outside);
    document.addEventListener('focusin', outside);
    return () => {
      document.removeEventListener('pointerdown', outside);
      document.removeEventListener('focusin', outside);
    };
  }, [open]);
  return (
    <div
      class="menu"
      ref={box}
      onKeyDown={(event) => {
        if (event.key !== 'Escape' || !open) return;
        event.stopPropagation();
        setOpen(false);
        button.current?.focus();
      }}
    >
      <button ref={button} type="button" class={props.quiet === true ? 'quiet' : ''} aria-expanded={open} onClick={() => setOpen(!open)}>
        {props.label}
        <Icon name="down" />
      </button>
      {open && <div class="menu-list">{props.children(() => setOpen(false))}</div>}
    </div>
  );
}

/** `note`: what the reader should know of the copy. */
export async function copyText(text: string, what: string, note = ''): Promise<void> {
  let copied = false;
  try {
    await navigator.clipboard.writeText(text);
    copied = true;
  } catch {
    // Without HTTPS a browser has no clipboard for pages; the old way works there.
    copied = copyOldWay(text);
  }
  toast(copied ? `${what} copied.${note}` : 'The browser refused to copy.');
}

function copyOldWay(text: string): boolean {
  const area = document.createElement('textarea');
  const before = document.activeElement;
  area.value = text;
  area.className = 'unseen';
  (document.querySelector('dialog[open]') ?? document.body).append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return copied;
}

const message = signal('');
let hide: ReturnType<typeof setTimeout> | undefined;

export function toast(text: string): void {
  message.value = text;
  announce(text);
  clearTimeout(hide);
  hide = setTimeout(() => {
    message.value = '';
  }, 4000);
}

export function Toast(): JSX.Element | null {
  return message.value === '' ? null : <div class="toast">{message.value}</div>;
}

export function download(name: string, parts: BlobPart[], type: string): void {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

/** An element that a component may take away and bring back, and the callback that is its `ref`. */
export function useElement<T extends HTMLElement>(): [T | null, (element: T | null) => void] {
  return useState<T | null>(null);
}

/** The width of an element in CSS pixels, followed as it changes; 0 before it is known. */
export function useWidth(element: HTMLElement | null): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (element === null) return;
    const observer = new ResizeObserver((entries) => {
      const found = entries[entries.length - 1]?.contentRect.width;
      if (found !== undefined) setWidth(Math.floor(found));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return width;
}

/** Whether an element is on screen. */
export function useInSight(element: HTMLElement | null): boolean {
  const [seen, setSeen] = useState(true);
  useEffect(() => {
    if (element === null) return;
    const observer = new IntersectionObserver((entries) => setSeen(entries[entries.length - 1]?.isIntersecting ?? true));
    observer.observe(element);
    return () => observer.disconnect();
  }, [element]);
  return seen;
}
