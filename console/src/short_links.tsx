/**
 * Short links: the server holds the fragment of a long link and returns a key, so the address is `#/s/KEY`.
 *
 * A link is copied in any case: the full one where the server has no short links, or refuses one, and then the page says why.
 */
import type { JSX } from 'preact';
import { documentBase } from './client.ts';
import { readFragment, writeFragment } from './fragment.ts';
import { formatJson, parseJson } from './json.ts';
import { problemOf } from './ndjson.ts';
import { hasSaved } from './page_table.ts';
import { isObject } from './protocol.ts';
import { readOnly } from './settings.ts';
import { cut, visible } from './text.ts';
import { Dialog, copyText, overlay } from './ui.tsx';

/** Mail programs and chats break longer addresses. */
export const FRAGMENT_MAX = 2000;

async function keyOf(fragment: string): Promise<string> {
  if (!hasSaved()) throw new Error('This server makes no short links.');
  if (readOnly) throw new Error('This console is read-only, so it makes no short links.');
  const answer = await fetch(new URL('v1/saved/links', documentBase), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: formatJson({ state: fragment }),
  }).catch(() => {
    throw new Error('The server does not answer, so the link is not short.');
  });
  if (!answer.ok) {
    const problem = await problemOf(answer);
    throw new Error(`The server made no short link: ${visible(cut(problem.detail ?? problem.title, 200))}`);
  }
  const made = parseJson(await answer.text());
  if (!isObject(made) || typeof made.key !== 'string') throw new Error('The server made no short link.');
  return made.key;
}

/** Copies the link to a state of the page: a short one if the fragment is long. */
export async function copyLink(fragment: string): Promise<void> {
  const base = location.href.split('#')[0] ?? '';
  if (fragment.length <= FRAGMENT_MAX) return copyText(base + fragment, 'Link');
  try {
    return copyText(base + writeFragment({ page: 'home', link: await keyOf(fragment) }), 'Short link');
  } catch (error) {
    return copyText(base + fragment, 'Full link', ` ${(error as Error).message}`);
  }
}

/** The key that is being fetched: one step of the reader reports its address twice. */
let following: string | null = null;

/** Fetches the fragment of a short link and passes it to `found`, or says why there is none. Nothing runs. */
export async function followShortLink(key: string, found: (fragment: string) => void): Promise<void> {
  if (following === key) return;
  following = key;
  const here = location.hash;
  let problem = 'The server does not answer.';
  try {
    const answer = await fetch(new URL(`v1/saved/links/${encodeURIComponent(key)}`, documentBase), { headers: { accept: 'application/json' } });
    // The reader has gone on meanwhile.
    if (location.hash !== here) return;
    const facts = answer.ok ? parseJson(await answer.text()) : null;
    // A state that is a short link itself could lead in a circle.
    if (isObject(facts) && typeof facts.state === 'string' && readFragment(facts.state).link === undefined) {
      overlay.value = null;
      found(facts.state);
      return;
    }
    problem = answer.ok || answer.status === 404 ? '' : `The server answered ${answer.status}.`;
  } catch {
    if (location.hash !== here) return;
  } finally {
    following = null;
  }
  overlay.value = <LinkDialog key={key} name={key} problem={problem} again={() => void followShortLink(key, found)} />;
}

function LinkDialog({ name, problem, again }: { name: string; problem: string; again(): void }): JSX.Element {
  const close = () => (overlay.value = null);
  return (
    <Dialog title="The short link cannot be opened" onClose={close}>
      {problem === '' ? (
        <p role="alert">
          The server has no link with the key <code>{visible(cut(name, 60))}</code>. A link is deleted when nobody opens it for 90 days, or its address was not copied whole. Ask the sender for the
          full link, or open the question from <b>History</b> or <b>Saved</b> on Ask.
        </p>
      ) : (
        <p role="alert">{problem} Try again, or ask the sender for the full link.</p>
      )}
      <div class="bar">
        {problem !== '' && (
          <button type="button" class="primary" onClick={again}>
            Try again
          </button>
        )}
        <button type="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}
