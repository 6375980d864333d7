/** Markdown as elements. No text becomes markup. */
import type { JSX } from 'preact';
import { visible, visibleLines } from '../text.ts';
import { type Block, type Inline, readMarkdown } from './markdown.ts';

function Pieces({ of }: { of: readonly Inline[] }): JSX.Element {
  return (
    <>
      {of.map((piece, i) => {
        if (piece.is === 'text') return visibleLines(piece.text);
        if (piece.is === 'code') return <code key={i}>{visible(piece.text)}</code>;
        if (piece.is === 'bold') return <strong key={i}><Pieces of={piece.of} /></strong>;
        if (piece.is === 'italic') return <em key={i}><Pieces of={piece.of} /></em>;
        return (
          <a key={i} href={piece.to} target="_blank" rel="noopener noreferrer">
            <Pieces of={piece.of} />
          </a>
        );
      })}
    </>
  );
}

function BlockView({ block }: { block: Block }): JSX.Element {
  if (block.is === 'code') return <pre>{visibleLines(block.text)}</pre>;
  if (block.is === 'paragraph') return <p><Pieces of={block.of} /></p>;
  if (block.is === 'list') {
    const List = block.ordered ? 'ol' : 'ul';
    return <List>{block.items.map((item, i) => <li key={i}><Pieces of={item} /></li>)}</List>;
  }
  // The page has h1, a panel h2.
  const Heading = `h${Math.min(6, block.level + 2)}` as 'h3';
  return <Heading><Pieces of={block.of} /></Heading>;
}

export function Markdown({ text }: { text: string }): JSX.Element {
  return (
    <div class="markdown">
      {readMarkdown(text).map((block, i) => (
        <BlockView key={i} block={block} />
      ))}
    </div>
  );
}
