/** Two versions of a saved query beside each other, and the choice between them. Nothing is lost before a click. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatTime } from './format.ts';
import { ProblemBox, shown } from './parts.tsx';
import type { Problem } from './protocol.ts';
import type { SavedQuery } from './saved_object.ts';
import { zone } from './settings.ts';
import { cut, visibleLines } from './text.ts';
import { Dialog } from './ui.tsx';

const LENGTH_SHOWN = 20_000;

interface Props {
  name: string;
  /** Null: it was deleted. */
  theirs: SavedQuery | null;
  mine: string;
  /** The tab was of no query of this name. */
  isNew: boolean;
  onClose(): void;
  take(): void;
  /** Null where it is done. */
  replace(): Promise<Problem | null>;
  rename(): void;
}

export function SavedVersions(props: Props): JSX.Element {
  const { theirs, mine, isNew } = props;
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const name = shown(props.name, 60);
  const title = theirs === null ? `${name} was deleted meanwhile` : isNew ? `${name} exists already` : `${name} was changed meanwhile`;
  const replace = async () => {
    setBusy(true);
    setProblem(null);
    const found = await props.replace();
    setBusy(false);
    setProblem(found);
  };
  return (
    <Dialog title={title} wide onClose={props.onClose}>
      <p>{theirs === null ? 'Your text is not saved. Nobody has another version.' : 'Your text is not saved. Choose the version that stays.'}</p>
      <div class="versions">
        {theirs !== null && <Version title="Theirs" text={theirs.content} note={`${timeOf(theirs)}revision ${theirs.revision}${theirs.comment === null ? '' : `, ${shown(theirs.comment, 200)}`}`} />}
        <Version title="Mine" text={mine} note="in this tab, not saved" />
      </div>
      {theirs !== null && theirs.content === mine && <p class="dim">Both texts are equal.</p>}
      {problem !== null && <ProblemBox problem={problem} />}
      <div class="bar">
        {theirs !== null && (
          <button type="button" disabled={busy} onClick={props.take}>
            Take theirs
          </button>
        )}
        <button type="button" class={theirs === null ? 'primary' : 'danger'} disabled={busy} onClick={() => void replace()}>
          {theirs === null ? 'Save mine again' : 'Save mine over it'}
        </button>
        <button type="button" disabled={busy} onClick={props.rename}>
          Save mine under another name…
        </button>
      </div>
    </Dialog>
  );
}

const timeOf = ({ changed }: SavedQuery): string => (changed === null ? '' : `changed ${formatTime(changed, zone(), false)}, `);

function Version({ title, note, text }: { title: string; note: string; text: string }): JSX.Element {
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <p class="dim">{note}</p>
      <pre class="value-text" tabIndex={0} role="region" aria-label={`Text: ${title}`}>
        {visibleLines(cut(text, LENGTH_SHOWN))}
      </pre>
    </section>
  );
}
