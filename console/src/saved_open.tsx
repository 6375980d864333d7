/** Opens saved queries in tabs, and keeps the tabs true to what the server has. */
import type { JSX } from 'preact';
import { problemOfError } from './objects.ts';
import { ProblemBox, shown } from './parts.tsx';
import type { Problem } from './protocol.ts';
import { go } from './route.ts';
import { read } from './saved_calls.ts';
import { openList } from './saved_controls.tsx';
import type { SavedQuery } from './saved_object.ts';
import type { SavedRef } from './store.ts';
import { type Tab, activeId, changedSince, openTab, tabs } from './tabs.ts';
import { Dialog, overlay, toast } from './ui.tsx';

export const refOf = ({ name, revision, comment, content, dialect, kept }: SavedQuery): SavedRef => ({ name, revision, comment, text: content, dialect, kept });

/** The tab of a saved query. One that is open already keeps the reader's changes. */
export function showSaved(saved: SavedQuery): Tab {
  const open = tabs.value.find((tab) => tab.saved.value?.name === saved.name);
  if (open !== undefined) {
    if (changedSince(open)) toast('This tab has your changes since it was saved.');
    else {
      open.text.value = saved.content;
      open.dialect.value = saved.dialect;
      open.saved.value = refOf(saved);
    }
    activeId.value = open.id;
    return open;
  }
  const tab = openTab(saved.content, saved.dialect, [], true);
  tab.saved.value = refOf(saved);
  return tab;
}

/** Takes the name away from tabs whose saved query is gone. */
export function forget(name: string): void {
  for (const tab of tabs.value) if (tab.saved.value?.name === name) tab.saved.value = null;
}

export async function openByName(name: string, origin: 'reader' | 'link' | 'other site'): Promise<void> {
  try {
    const tab = showSaved(await read(name));
    if (origin !== 'reader' && tab.asked.value === null) tab.origin.value = origin;
    overlay.value = null;
    go('ask');
  } catch (error) {
    overlay.value = <Absent key={name} name={name} problem={problemOfError(error)} again={() => void openByName(name, origin)} />;
  }
}

function Absent({ name, problem, again }: { name: string; problem: Problem; again(): void }): JSX.Element {
  const close = () => (overlay.value = null);
  return (
    <Dialog title={`Saved query ${shown(name, 60)}`} onClose={close}>
      {problem.status === 404 ? (
        <p role="alert">The server has no saved query of this name. It may have been deleted, or saved under another name since.</p>
      ) : (
        <ProblemBox problem={problem} again={again} />
      )}
      <div class="bar">
        <button type="button" class="primary" onClick={openList}>
          Show saved queries
        </button>
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
