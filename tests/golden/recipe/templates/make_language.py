#!/usr/bin/env python3
"""Writes language.jsonl: small templates and what Jinja2 renders from them, in the environment that
transformers' apply_chat_template sets up.

usage: make_language.py > language.jsonl        (needs jinja2 3.1.6)
"""
import datetime
import json

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """The block {% generation %}, which marks an assistant's text for training."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(style):
    return datetime.datetime.fromtimestamp(1722000000, datetime.timezone.utc).strftime(style)


def environment():
    out = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    out.filters["tojson"] = tojson
    out.globals["raise_exception"] = raise_exception
    out.globals["strftime_now"] = strftime_now
    return out


VARIABLES = {'messages': [{'role': 'system', 'content': 'Be <b> "brief".'},
              {'role': 'user', 'content': 'Grüße, 世界! \n x'},
              {'role': 'assistant',
               'content': ' ok ',
               'tool_calls': [{'id': 'c1',
                               'type': 'function',
                               'function': {'name': 'f',
                                            'arguments': {'a': [1, 2.5, None, True],
                                                          'é': 'ü'}}}]},
              {'role': 'tool', 'content': '42'}],
 'bos_token': '<s>',
 'eos_token': '</s>',
 'add_generation_prompt': True,
 'n': 7,
 'f': 2.5,
 'big': 1e+16,
 'small': 1e-05,
 'z': None,
 'yes': True,
 's': 'a,b,,c',
 'u': '\xa0 Ünïcode\u3000',
 'd': {'b': 1, 'a': 'x', 'c': None, 'items': 'I'},
 'e': [],
 'l': [3, 1, 2],
 'ls': ['b', 'A', 'c', 'a'],
 'q': 'it\'s "q"\\ \n\t\xad\x07',
 'many': ['x', 'x', 'x', 'x', 'x'],
 'one': [5],
 'nested': [[1, 2], [3]],
 'neg': -7,
 'emoji': 'a😀b'}

TEMPLATES = [
    "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if yes -%}\n  b\n  {%- endif -%}\nc\n\n",
    "a  {{ n }}  b\n",
    "  {{- n -}}  b",
    "a\n    {# c #}\nb",
    "a {# c #}\nb",
    "a {#- c -#}  b",
    "  {%+ if yes %}x{% endif +%}\ny",
    "{% if yes +%}\nx{% endif %}",
    "x{% raw %} {{ a }} {% b %}{% endraw %}\ny",
    "  {%- raw -%}  {{ a }}  {%- endraw -%}  y",
    "{% if yes %}\n\nx{% endif %}\n\ny",
    "\n",
    "\n\n",
    "a\r\nb\rc\n",
    "{{ '}}' }}{{ \"%}\" }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {'b': 1}} }}",
    "\t{% if yes %}x{% endif %}\t{% if yes %}\ny{% endif %}",
    "{{'a\\nb'}}|{{\"\\t\\x41\\u00e9\\101\\q\"}}",
    "{{ 'a' 'b' }}",
    "text only",
    "{{ n}}{{n }}\n{{ n }}\n",
    "a{{ '' }}\n",
    "  {% set x = 1 %}\n  {{ x }}",
    "{% set x = 1 %}  \n  {{ x }}",
    "{% for i in l %}\n  {{ i }}\n{% endfor %}\nend",
    "{{ n }} {{ f }} {{ big }} {{ small }} {{ z }} {{ yes }} {{ not yes }} {{ undefinedvar }}",
    "{{ 1.0 }} {{ 100.0 }} {{ 1e15 }} {{ 1e22 }} {{ 0.1 }} {{ 1/3 }} {{ -0.0 }}",
    "{{ messages }}",
    "{{ d }}",
    "{{ q }}",
    "{{ [q] }}",
    "{{ ['a\"b', \"a'b\", 'a\\'b\"c'] }}",
    "{{ (1,2) }} {{ (1,) }} {{ () }}",
    "{{ e }} {{ {} }}",
    ("{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 "
     "** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}"),
    "{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ -2 ** 2 }} {{ 2 - -2 }} {{ +3 }}",
    "{{ 'a' * 3 }} {{ 2 * 'b' }} {{ [1] * 2 }} {{ [1] + [2] }} {{ 'a' ~ 1 ~ none ~ true }}",
    "{{ 1 ~ 2 + 3 }}",
    "{{ true + 1 }}",
    ("{{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' == 'a' }} {{ [1] == [1] }} {{ {'"
     "a':1} == {'a':1} }} {{ none == none }} {{ 1 == '1' }}"),
    "{{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 'a' < 'b' }} {{ 3 >= 3 }} {{ 1 != 2 }}",
    ("{{ 1 in l }} {{ 9 in l }} {{ 'a' in d }} {{ 'ü' in 'Grüße' }} {{ 9 not"
     " in l }} {{ 'x' in undefinedvar }}"),
    "{{ not 1 in l }} {{ not (1 in l) and true }}",
    "{{ 1 or 2 }} {{ 0 or 'x' }} {{ 1 and 2 }} {{ '' and 2 }} {{ none or [] or 'z' }}",
    "{{ 'y' if yes else 'n' }}{{ 'y' if not yes }}{{ 'a' if no else 'b' if no else 'c' }}",
    "{{ 1 + 'a' }}",
    "{{ 'a' + 1 }}",
    "{{ 'a' + none }}",
    "{{ [1] + 'a' }}",
    "{{ 1 / 0 }}",
    "{{ 1 < 'a' }}",
    "{{ undefinedvar + 1 }}",
    "{{ undefinedvar.x }}",
    "{{ d.nope.x }}",
    "{{ messages[9].x }}",
    "{{ nope() }}",
    "{{ d.nope() }}",
    "{{ none.x }}",
    "{{ none.x.y }}",
    "{{ n.x is defined }}",
    "{{ n() }}",
    "{{ 1 in 5 }}",
    "{{ 1 in 'a' }}",
    "{% for x in 5 %}{% endfor %}",
    "{% for x in none %}{% endfor %}",
    "{{ -'a' }}",
    ("{{ messages[0].role }} {{ messages[-1]['content'] }} {{ messages[0]['n"
     "ope'] }} {{ messages.0.role }}"),
    ("{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ l[-"
     "2:] }} {{ l[2:0:-1] }}"),
    ("{{ u[1:3] }}|{{ emoji[1] }}|{{ emoji[::-1] }}|{{ emoji[-2:] }}|{{ emoj"
     "i[:1] }}|{{ emoji[9:] }}|{{ emoji[0:3:2] }}"),
    ("{{ d['items'] }} {{ d.get('a') }} {{ d.get('zz') }} {{ d.get('zz', 5) "
     "}} {{ d.keys()|list }} {{ d.values()|list }}"),
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{{ l[none:2] }}",
    "{{ 'abc'['x'] }}",
    "{{ l['x'] }}",
    "{{ l[1.5] }}",
    "[{{ u|trim }}] [{{ '  a b '|trim }}] [{{ 'xxaxx'|trim('x') }}]",
    "{{ d|tojson }} {{ q|tojson }} {{ messages|tojson }}",
    "{{ messages[2]|tojson(indent=2) }}",
    "{{ d|tojson(indent=4) }}",
    "{{ [[],{}]|tojson(indent=1) }}",
    "{{ d|tojson(sort_keys=true) }}",
    "{{ d|tojson(separators=(',',':')) }}",
    "{{ emoji|tojson(ensure_ascii=true) }}",
    "{{ 'é\\x7f'|tojson(ensure_ascii=true) }}",
    "{{ '\\x7f\\x08\\x0c\\x1f/'|tojson }}",
    "{{ [1.0,1e16,1e-7,true,none]|tojson }}",
    "{{ l|length }} {{ 'é😀'|length }} {{ d|length }} {{ e|count }} {{ undefinedvar|length }}",
    ("{{ ls|join(', ') }} {{ l|join }} {{ messages|join('|', attribute='role"
     "') }} {{ 'abc'|join('-') }}"),
    ("{{ 'ßaÜ'|upper }} {{ 'ÄB'|lower }} {{ 'hello wORLD-foo (bar'|title }} "
     "{{ 'hELLO World'|capitalize }}"),
    ("{{ undefinedvar|default('x') }} {{ z|default('x') }} {{ z|default('x',"
     " true) }} {{ ''|d('y', true) }} {{ undefinedvar|default }}"),
    ("{{ messages|selectattr('role','equalto','user')|list|length }} {{ mess"
     "ages|rejectattr('role','equalto','user')|map(attribute='role')|list }}"),
    "{{ messages|selectattr('tool_calls','defined')|map(attribute='role')|join }}",
    ("{{ l|select('odd')|list }} {{ l|reject('odd')|list }} {{ l|select('gt'"
     ", 1)|list }} {{ [0,1,'']|select|list }}"),
    "{{ ls|map('upper')|list }} {{ messages|map(attribute='nope', default='?')|list }}",
    "{{ messages|map(attribute='tool_calls.0.function.name')|list|last }}",
    ("{{ ls|sort }} {{ ls|sort(case_sensitive=true) }} {{ l|sort(reverse=tru"
     "e) }} {{ messages|sort(attribute='role')|map(attribute='role')|join(',"
     "') }}"),
    "{{ l|first }} {{ l|last }} {{ e|first }} {{ 'abc'|first }} {{ 'abc'|last }}",
    "{{ l|reverse|list }} {{ 'aé😀'|reverse }}",
    "{{ l|min }} {{ l|max }} {{ l|sum }} {{ [1.5,2]|sum }} {{ ls|min }} {{ e|max }}",
    "{{ ['a','A','b','a']|unique|list }} {{ [1,1,2]|unique|list }}",
    "{{ d|dictsort }} {{ {'b':2,'a':3}|dictsort(by='value') }}",
    "{{ d|items|list }}",
    ("{{ '12'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 2.9|int }} {{ '2.9'|i"
     "nt }} {{ ' 7 '|int }} {{ '1.5'|float }} {{ 3|float }} {{ 'x'|float }} "
     "{{ none|int }}"),
    ("{{ 5|string + 'x' }} {{ none|string }} {{ -3|abs }} {{ 2.567|round(2) "
     "}} {{ 2.5|round }} {{ 2.1|round(0,'ceil') }} {{ 3|round }}"),
    "{{ 'a-b-a'|replace('a','x') }} {{ 'aaa'|replace('a','b',2) }} {{ 5|replace('5','6') }}",
    ("{{ 'a\\nb\\n\\nc'|indent }}|{{ 'a\\nb'|indent(2, true) }}|{{ 'a\\n\\nb'|inde"
     "nt(2, blank=true) }}|{{ 'a\\nb\\n'|indent(1) }}"),
    "{{ ls|list }} {{ 'ab'|list }} {{ d|list }}",
    "{{ ' x '|safe }}",
    "{{ 1|nofilter }}",
    "{{ 1 is notest }}",
    "{{ undefinedvar|trim }}|",
    "{{ l|map('nofilter')|list }}",
    "{{ l|tojson|length }}",
    "{{ undefinedvar|tojson }}",
    ("{{ n is defined }} {{ undefinedvar is defined }} {{ undefinedvar is un"
     "defined }} {{ z is none }} {{ n is not none }} {{ d.nope is defined }}"),
    ("{{ 'a' is string }} {{ l is string }} {{ d is mapping }} {{ l is mappi"
     "ng }} {{ l is iterable }} {{ 'a' is iterable }} {{ 5 is iterable }} {{"
     " d is iterable }} {{ z is iterable }} {{ undefinedvar is iterable }}"),
    ("{{ l is sequence }} {{ 'a' is sequence }} {{ d is sequence }} {{ 5 is "
     "sequence }} {{ z is sequence }}"),
    ("{{ 1 is number }} {{ 1.5 is number }} {{ true is number }} {{ 'a' is n"
     "umber }} {{ 1 is integer }} {{ true is integer }} {{ 1.5 is float }} {"
     "{ yes is boolean }} {{ 1 is boolean }}"),
    ("{{ yes is true }} {{ yes is false }} {{ 1 is true }} {{ 0 is false }} "
     "{{ none is false }}"),
    "{{ 3 is odd }} {{ 3 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }}",
    ("{{ 1 is eq 1 }} {{ 1 is equalto(2) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} "
     "{{ 3 is ge 3 }} {{ 1 is in [1,2] }} {{ 'a' is in 'abc' }} {{ z is same"
     "as none }} {{ yes is sameas true }} {{ 1 is sameas true }}"),
    ("{{ 'ab' is lower }} {{ 'AB' is upper }} {{ 'aB' is lower }} {{ range i"
     "s callable }} {{ n is callable }}"),
    "{{ n is defined and n is not none and n > 3 }}",
    "{{ 'x' if n is defined else 'y' }}",
    "{{ n is defined | string }}",
    "{{ not n is defined }}",
    ("[{{ u.strip() }}] [{{ ' a '.lstrip() }}] [{{ ' a '.rstrip() }}] [{{ 'x"
     "ya'.strip('xy') }}] [{{ '\\na\\n\\n'.strip('\\n') }}]"),
    ("{{ s.split(',') }} {{ 'a  b c '.split() }} {{ 'a,b,c'.split(',', 1) }}"
     " {{ 'a,b,c'.rsplit(',', 1) }} {{ ''.split() }} {{ ''.split(',') }} {{ "
     "' a b c '.split(none, 1) }} {{ 'aXbX'.split('X')[-1] }}"),
    ("{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.start"
     "swith(('x','a')) }} {{ 'abc'.endswith('') }}"),
    ("{{ 'abc'.upper() }} {{ 'ABC'.lower() }} {{ 'hello world'.title() }} {{"
     " 'hELLO'.capitalize() }}"),
    ("{{ 'a-b'.replace('-', '+') }} {{ 'aaa'.replace('a','b',1) }} {{ 'abcab"
     "c'.find('c') }} {{ 'abcabc'.rfind('c') }} {{ 'ééa'.find('a') }} {{ 'ab"
     "c'.find('z') }} {{ 'aXaXa'.count('a') }} {{ 'abc'.index('b') }}"),
    ("{{ ', '.join(ls) }} {{ '12'.isdigit() }} {{ '1a'.isdigit() }} {{ ''.is"
     "digit() }} {{ ' '.isspace() }}"),
    ("{{ 'a\\nb\\r\\nc'.splitlines() }} {{ 'prefix-x'.removeprefix('prefix-') }"
     "} {{ 'x.py'.removesuffix('.py') }}"),
    "{{ l.index(1) }} {{ [1,1,2].count(1) }}",
    "{{ l.append(1) }}",
    "{{ 'a'.nope() }}",
    "{{ ', '.join(l) }}",
    "{{ ''.join([]) }}|",
    "{{ l.nope() }}",
    "{{ 'abc'.index('z') }}",
    "{{ 'a'.startswith(1) }}",
    ("{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.revind"
     "ex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length"
     " }}{{ loop.depth }} {% endfor %}"),
    ("{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{{ loop"
     ".cycle('a','b') }} {% endfor %}"),
    ("{% for x in e %}x{% else %}none{% endfor %}{% for x in l if x > 1 %}{{"
     " x }}{{ loop.length }}{% else %}none{% endfor %}{% for x in l if x > 9"
     " %}x{% else %}none{% endfor %}"),
    ("{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endf"
     "or %}{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% en"
     "dfor %}"),
    ("{% for x in l %}{% for y in l %}{{ loop.depth }}{{ loop.index }}{% end"
     "for %}{{ loop.index }}{% endfor %}"),
    "{% for a in nested %}{% for b in a %}{{ b }}{% endfor %};{% endfor %}",
    ("{% for k in d %}{{ k }}{% endfor %}{% for c in emoji %}[{{ c }}]{% end"
     "for %}{% for x in undefinedvar %}x{% endfor %}"),
    "{% for a, b in [[1,2],[3,4]] %}{{ a }}-{{ b }};{% endfor %}",
    "{% for a, b in [[1,2,3]] %}{% endfor %}",
    "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}",
    ("{% set ns = namespace(x=1, y='a') %}{% for i in l %}{% set ns.x = ns.x"
     " + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.zz is defined }}"),
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set c = (1, 2) %}{{ c }}",
    "{% set x %}\n  a {{ n }}\n{% endset %}[{{ x }}]",
    "{% set x | upper | trim %} a {{ n }} {% endset %}[{{ x }}]",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}",
    "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}",
    ("{% if no %}a{% elif n == 7 %}b{% else %}c{% endif %}{% if no %}a{% eli"
     "f no %}b{% else %}c{% endif %}"),
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
    ("{% macro m(a, b='B', c=none) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{"
     " m(1) }}{{ m(1, 2) }}{{ m(c=3, a=1) }}{{ m() }}"),
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
    ("{% set g = 'G' %}{% macro m() %}{{ g }}{% set g = 'L' %}{{ g }}{% endm"
     "acro %}{{ m() }}{{ g }}"),
    "{% macro m() %} x {% endmacro %}{{ m()|trim }}{{ m() ~ 'y' }}{{ m().strip() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}",
    "{% generation %}x{{ n }}{% endgeneration %}",
    "{{ raise_exception('stop ' ~ n) }}",
    "{{ strftime_now('%d %b %Y %H:%M') }}",
    ("{{ range(3)|list }} {{ range(1,4)|list }} {{ range(5,0,-2)|list }} {% "
     "for i in range(2) %}{{ i }}{% endfor %}"),
    "{{ range(1000000) }}",
    "{{ dict(a=1, b='x') }} {{ dict(a=1).a }}",
    ("{% set ns = namespace(l=[]) %}{% for x in l %}{% set ns.l = ns.l + [x "
     "* 2] %}{% endfor %}{{ ns.l }}"),
    "{% set d.x = 1 %}",
    "{% set nope.x = 1 %}",
    "{% if %}x{% endif %}",
    "{% endif %}",
    "{% if yes %}",
    "{{ 1 + }}",
    "{{ 'abc }}",
    "{{ (1 }}",
    "{{ 1 ) }}",
    "{% foo %}",
    "{{ a b }}",
    "{# open",
    "{{",
    "{% for x of l %}{% endfor %}",
    "{% break %}",
    "{% set true = 1 %}",
    "{{ [1,2,] }} {{ {'a':1,} }}",
    "{{ n if }}",
    "{{ messages[0 }}",
    "{{ a..b }}",
    "{{ ? }}",
    "{% for x in l %}{% macro m() %}{{ 1 }}{% endmacro %}{{ m() }}{% endfor %}",
    "{{ 'a' is string and l is not string }}",
    "{{ (messages|length - 1) - 2 }}",
    "{{ '%s' }}",
    "{{ 'a' not in ['b'] and 'x' }}",
    "{{ [1,2,3][1:][0] }}",
    "{{ ((1)) }}",
    "{{ 1_000 }} {{ 1e3 }} {{ 1.5e-3 }}",
    "{{ true and not false }} {{ True }} {{ None }} {{ False }}",
    ("{%- for m in messages -%}\n  {%- if m.role == 'user' -%}\n    U:{{ m.con"
     "tent | trim }}\n  {%- elif m['role'] == 'assistant' %}\nA:{{ m.content }"
     "}\n  {%- endif -%}\n{%- endfor %}"),
    "{{ messages | map(attribute='content') | map('trim') | join('/') }}",
    "{{ {'a': 1}.items() | list }}",
    "{% for k, v in d | items %}{{ k }}{% endfor %}",
    "{% for m in messages | reverse %}{{ m.role }} {% endfor %}",
    "{{ d | length > 2 }}",
    "{{ 'x' ~ d.a | upper }}",
    "{{ 2 * 3 | string }}",
    "{% set x = namespace() %}{% set x.y = [] %}{{ x.y }}",
    "{{ loop is defined }}",
    "{% for x in [1] %}{{ loop is defined }}{% endfor %}{{ loop is defined }}",
    "{{ big|int }} {{ 1e300 }}",
    "{{ [n, f, z, yes, s]|tojson }}",
    "{% for x in 'a b'.split() %}{{ x }};{% endfor %}",
    ("{% if messages[0]['role'] == 'system' %}{% set msgs = messages[1:] %}{"
     "% endif %}{{ msgs | length }}"),
    "{{ messages[1:] | map(attribute='role') | join(' ') }}",
    "{{ 'a' < 1 }}",
    "{{ 'abc'[5] is defined }}{{ 'abc'[-1] }}",
    "{% set t = 'x' %}{% set t = t + 'y' %}{{ t }}",
]


def main():
    env = environment()
    for text in TEMPLATES:
        line = {"template": text, "vars": VARIABLES}
        try:
            line["out"] = env.from_string(text).render(**VARIABLES)
        except Exception as error:  # whatever Python raises: the template is refused
            line["error"] = f"{type(error).__name__}: {error}"
        names = {"l", "ls"} | {name for name in VARIABLES if name in text}
        line["vars"] = {name: value for name, value in VARIABLES.items() if name in names}
        print(json.dumps(line, ensure_ascii=False))


main()
