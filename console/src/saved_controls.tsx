/** Saved queries on Ask and Home, as far as they are on screen from the beginning. Their dialogs are in `pages.js`. */
import { signal } from '@preact/signals';
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { getText } from './client.ts';
import { formatTime } from './format.ts';
import { parseJson } from './json.ts';
import { hasSaved, withLater } from './page_table.ts';
import { type SavedFacts, readSavedPage, savedLast } from './saved_object.ts';
import { readOnly, zone } from './settings.ts';
import { type Tab, changedSince } from './tabs.ts';
import { cut, visible } from './text.ts';
import { overlay } from './ui.tsx';

const HOME_SHOWN = 6;

/** The saved queries that changed last, as Home has read them. */
export const recentSaved = signal<SavedFacts[]>([]);

export const openList = (): void => void withLater((later) => later.list());
export const openByName = (name: string): void => void withLater((later) => later.open(name, 'reader'));

/** The state of a tab's saved query, and the buttons that save it. */
export function SaveControls({ tab }: { tab: Tab }): JSX.Element | null {
  const offered = hasSaved();
  const ref = tab.saved.value;
  const save = (asNew: boolean) => void withLater((later) => later.save(tab, asNew));
  useEffect(() => {
    if (!offered || readOnly) return;
    const key = (event: KeyboardEvent) => {
      if (event.key.toLowerCase() !== 's' || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      // The browser would offer to save the page's own file.
      event.preventDefault();
      if (document.querySelector('dialog[open]') === null && overlay.value === null && tab.text.value.trim() !== '') save(false);
    };
    document.addEventListener('keydown', key);
    return () => document.removeEventListener('keydown', key);
  }, [tab, offered]);
  if (!offered) return null;
  return (
    <>
      {!readOnly && (
        <button type="button" disabled={tab.text.value.trim() === ''} onClick={() => save(false)} title="Ctrl+S">
          Save
        </button>
      )}
      {!readOnly && ref !== null && (
        <button type="button" onClick={() => save(true)}>
          Save as…
        </button>
      )}
      {ref !== null && (
        <span class="dim saved-state" role="group" aria-label="Saved query">
          saved as <b>{visible(cut(ref.name, 60))}</b>
          {changedSince(tab) && ', changed since'}
          {!ref.kept && ', gone when the server ends'}
        </span>
      )}
    </>
  );
}

export function SavedButton(): JSX.Element | null {
  if (!hasSaved()) return null;
  return (
    <button type="button" class="quiet" onClick={openList}>
      Saved
    </button>
  );
}

/** The saved queries that changed last. `ready`: the first answer is on screen. */
export function SavedRecent({ ready }: { ready: boolean }): JSX.Element | null {
  const offered = hasSaved();
  useEffect(() => {
    if (!ready || !offered) return;
    const abort = new AbortController();
    getText(savedLast(HOME_SHOWN), abort.signal)
      .then((text) => {
        recentSaved.value = readSavedPage(parseJson(text)).objects;
      })
      .catch(() => {
        // The list stays as it was; the dialog of saved queries reports problems.
      });
    return () => abort.abort();
  }, [ready, offered]);
  if (!offered || recentSaved.value.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="recent-saved">
      <header>
        <h2 id="recent-saved">Saved queries</h2>
        <span class="dim">changed last</span>
        <span class="spring" />
        <button type="button" class="quiet" onClick={openList}>
          All saved
        </button>
      </header>
      <ul class="history">
        {recentSaved.value.map((saved) => (
          <li key={saved.name}>
            <button type="button" onClick={() => openByName(saved.name)}>
              <code>{visible(cut(saved.name, 160))}</code>
              <span class="dim">{saved.changed === null ? '' : formatTime(saved.changed, zone(), false)}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
