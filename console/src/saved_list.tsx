/** The list of saved queries, by the begin of their names and page by page: open, copy a link, rename, delete. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatNumber } from './format.ts';
import { writeFragment } from './fragment.ts';
import { problemOfError, readOnly, useWatch } from './objects.ts';
import { Condition, Field, ProblemBox, shown } from './parts.tsx';
import type { Problem } from './protocol.ts';
import { isConflict, read, remove, write } from './saved_calls.ts';
import { recentSaved } from './saved_controls.tsx';
import { type SavedFacts, nameFault, readSavedPage, savedPage } from './saved_object.ts';
import { forget, openByName, refOf } from './saved_open.tsx';
import { AskOnce, Pager, timeText, useFocusKept } from './sections.tsx';
import { copyLink } from './short_links.tsx';
import { tabs } from './tabs.ts';
import { Dialog, announce, overlay, toast } from './ui.tsx';

const PAGE_OBJECTS = 50;

const close = () => (overlay.value = null);

export function showList(): void {
  overlay.value = <SavedList key="saved-list" />;
}

function SavedList(): JSX.Element {
  const [prefix, setPrefix] = useState('');
  const [pages, setPages] = useState<string[]>([]);
  const [asking, setAsking] = useState<{ to: 'delete' | 'rename'; saved: SavedFacts } | null>(null);
  const list = useWatch(savedPage(prefix, pages[pages.length - 1] ?? null, PAGE_OBJECTS), Infinity);
  const { objects, next, kept } = readSavedPage(list.data);
  const box = useRef<HTMLDivElement>(null);
  const begin = useRef<HTMLDivElement>(null);
  const keepFocus = useFocusKept(box);
  useEffect(() => begin.current?.querySelector('input')?.focus(), []);
  const done = () => {
    keepFocus();
    list.again();
  };
  return (
    <Dialog title="Saved queries" wide onClose={close}>
      {list.data !== null && !kept && <p class="notice">This server holds saved queries in memory only. They are gone when it ends.</p>}
      <div class="bar filters" ref={begin}>
        <Field
          label="Name begins with"
          value={prefix}
          onInput={(value) => {
            setPages([]);
            setPrefix(value);
          }}
        />
      </div>
      <div ref={box}>
        <Condition of={list} />
        {list.data !== null && objects.length === 0 && <p class="dim">{prefix === '' && pages.length === 0 ? 'No query is saved. Save on Ask saves the text of a tab under a name.' : 'No saved query has such a name.'}</p>}
        {objects.length > 0 && <Rows objects={objects} ask={setAsking} />}
      </div>
      <Pager pages={pages} next={next} show={setPages} />
      {asking?.to === 'delete' && <Delete saved={asking.saved} done={done} onClose={() => setAsking(null)} />}
      {asking?.to === 'rename' && <Rename saved={asking.saved} done={done} onClose={() => setAsking(null)} />}
    </Dialog>
  );
}

function Rows({ objects, ask }: { objects: readonly SavedFacts[]; ask(asking: { to: 'delete' | 'rename'; saved: SavedFacts }): void }): JSX.Element {
  return (
    <div class="saved-list" role="region" aria-label="Saved queries" tabIndex={0}>
      <ul>
        {objects.map((saved) => {
          const name = shown(saved.name, 140);
          return (
            <li key={saved.name}>
              <span class="saved-name">
                <button type="button" class="link" aria-label={`Open ${name}`} onClick={() => void openByName(saved.name, 'reader')}>
                  {name}
                </button>
                <span class="dim sub">
                  {timeText(saved.changed === null ? undefined : new Date(saved.changed).toISOString())}, revision {formatNumber(saved.revision)}
                </span>
                {saved.comment !== null && saved.comment !== '' && <span class="sub">{shown(saved.comment, 300)}</span>}
              </span>
              <span class="bar">
                <button type="button" class="quiet" aria-label={`Copy link to ${name}`} onClick={() => void copyLink(writeFragment({ page: 'ask', saved: saved.name }))}>
                  Copy link
                </button>
                {!readOnly && (
                  <>
                    <button type="button" aria-label={`Rename ${name}`} onClick={() => ask({ to: 'rename', saved })}>
                      Rename…
                    </button>
                    <button type="button" aria-label={`Delete ${name}`} onClick={() => ask({ to: 'delete', saved })}>
                      Delete…
                    </button>
                  </>
                )}
              </span>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

const forgetRecent = (name: string) => {
  recentSaved.value = recentSaved.value.filter((one) => one.name !== name);
};

function Delete({ saved, done, onClose }: { saved: SavedFacts; done(): void; onClose(): void }): JSX.Element {
  const name = shown(saved.name, 60);
  return (
    <AskOnce
      question={{
        title: `Delete ${name}`,
        text: saved.comment === null || saved.comment === '' ? saved.name : `${saved.name}\n${saved.comment}`,
        warning: 'The saved query is deleted for all readers. Texts in open tabs stay. Dashboards that name it do not find it any more.',
        button: 'Delete the saved query',
        run: () => remove(saved.name, saved.revision),
        done: () => {
          forget(saved.name);
          forgetRecent(saved.name);
          done();
        },
      }}
      onClose={onClose}
    />
  );
}

/** Saves under the new name first, so that no moment is without the query. */
async function rename(saved: SavedFacts, to: string): Promise<void> {
  const old = await read(saved.name);
  const made = await write(to, old.comment, old, null);
  for (const tab of tabs.value) {
    // A tab of an earlier revision must not replace the newer one unseen: it has no name any more.
    if (tab.saved.value?.name === saved.name) tab.saved.value = tab.saved.value.revision === old.revision ? refOf(made) : null;
  }
  forgetRecent(saved.name);
  await remove(old.name, old.revision).catch((error: unknown) => {
    const { title, detail } = problemOfError(error);
    toast(`Saved as ${shown(to, 60)}, but ${shown(old.name, 60)} is still there: ${shown(detail ?? title, 200)}`);
  });
}

function Rename({ saved, done, onClose }: { saved: SavedFacts; done(): void; onClose(): void }): JSX.Element {
  const [name, setName] = useState(saved.name);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector('input')?.select(), []);
  const submit = () => {
    const to = name.trim();
    const fault = to === saved.name ? 'This is its name already.' : nameFault(to);
    if (fault !== null) {
      setProblem({ title: fault, status: 0 });
      return;
    }
    setBusy(true);
    setProblem(null);
    rename(saved, to).then(
      () => {
        onClose();
        announce(`Renamed to ${shown(to, 60)}.`);
        done();
      },
      (error: unknown) => {
        setBusy(false);
        setProblem(isConflict(error) ? { title: 'A saved query has this name already. Choose another one.', status: 412 } : problemOfError(error));
      },
    );
  };
  return (
    <Dialog title={`Rename ${shown(saved.name, 60)}`} onClose={onClose}>
      <form
        ref={form}
        class="statement-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (!busy) submit();
        }}
      >
        <Field label="New name" value={name} onInput={setName} />
        <p class="dim">The query is saved under the new name, and the old one is deleted. Links to the old name end.</p>
        {problem !== null && <ProblemBox problem={problem} />}
        <div class="bar">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? 'Renaming…' : 'Rename'}
          </button>
          <button type="button" onClick={onClose}>
            Back
          </button>
        </div>
      </form>
    </Dialog>
  );
}
